//! BMCs as processes, and what an operator of theirs would know.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use apelora_ipmi::{
    Conversation, Credentials, IpmiError, Power, Reported, SendReport, Suites, SystemGuid, Target, Timers,
};
use tokio::time::{Instant, sleep};

/// The operator account of every BMC here.
pub(crate) const OPERATOR: (&str, &str) = ("op", "Op-Lab-Passw0rd!");
/// An account that may only read.
pub(crate) const USER: (&str, &str) = ("user", "User-Lab-Pass");

/// The UUID of every BMC here, as printed, and in the three byte orders that BMCs send.
pub(crate) const UUID: &str = "4c4c4544-0042-4a10-8038-b4c04f5a3332";
pub(crate) const RFC: [u8; 16] = *b"\x4c\x4c\x45\x44\x00\x42\x4a\x10\x80\x38\xb4\xc0\x4f\x5a\x33\x32";
pub(crate) const SMBIOS: [u8; 16] = *b"\x44\x45\x4c\x4c\x42\x00\x10\x4a\x80\x38\xb4\xc0\x4f\x5a\x33\x32";
pub(crate) const REVERSED: [u8; 16] = *b"\x32\x33\x5a\x4f\xc0\xb4\x38\x80\x10\x4a\x42\x00\x44\x45\x4c\x4c";

/// The judgement that the caller of the client makes.
pub(crate) fn is_mapped(guid: SystemGuid) -> bool {
    [RFC, SMBIOS, REVERSED].contains(&guid.0)
}

/// Time enough for everything; nothing here waits for it to pass.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Short waits, for tests in which datagrams get lost.
pub(crate) const HASTY: Timers = Timers { step: Duration::from_millis(250), ..Timers::DEFAULT };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// OpenIPMI's simulator: suite 3 only.
    IpmiSim,
    /// pyghmi's BMC as shipped: suite 3 only, whatever is proposed.
    Shipped,
    /// pyghmi's BMC with suite 17 and faults.
    Suite17,
}

pub(crate) const ALL: [Kind; 3] = [Kind::IpmiSim, Kind::Shipped, Kind::Suite17];

pub(crate) struct Bmc {
    kind: Kind,
    child: Child,
    address: SocketAddr,
    state: PathBuf,
}

impl Drop for Bmc {
    fn drop(&mut self) {
        self.child.kill().expect("the BMC runs");
        self.child.wait().expect("the BMC ends");
        // What it wrote is kept for whoever wants to know why a test failed.
        if let Some(folder) = self.state.parent().filter(|_| !std::thread::panicking()) {
            drop(std::fs::remove_dir_all(folder));
        }
    }
}

impl Bmc {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::start_with(kind, &[]).await
    }

    /// pyghmi's BMC with suite 17 and these faults.
    pub(crate) async fn faulty(faults: &str) -> Self {
        Self::start_with(Kind::Suite17, &["--fault", faults]).await
    }

    /// A BMC with further arguments of `ipmi-bmc.py`.
    pub(crate) async fn start_with(kind: Kind, arguments: &[&str]) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        // Cargo names a folder to integration tests and benches only.
        let above = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = above.join(format!("ipmi-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let state = folder.join("power");
        std::fs::write(&state, "on\n").unwrap();
        let address = free_address();
        let mut command = match kind {
            Kind::IpmiSim => ipmi_sim(&folder, &state, address),
            Kind::Shipped => pyghmi("shipped", &state, address),
            Kind::Suite17 => pyghmi("suite17", &state, address),
        };
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{kind:?} did not start: {error}"));
        let bmc = Self { kind, child, address, state };
        bmc.ready().await;
        bmc
    }

    /// Waits until it answers the one question that needs no session.
    async fn ready(&self) {
        // Get Channel Authentication Capabilities in IPMI 1.5 framing.
        const QUESTION: &[u8] =
            b"\x06\x00\xff\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x20\x18\xc8\x81\x00\x38\x8e\x03\xb6";
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(self.address).await.unwrap();
        for _ in 0..300 {
            let mut answer = [0; 256];
            let asked = socket.send(QUESTION).await;
            let wait = tokio::time::timeout(Duration::from_millis(100), socket.recv(&mut answer));
            match (asked, wait.await) {
                (Ok(_), Ok(Ok(_))) => return,
                (_, Err(_)) => {}
                // Nobody listens yet: the kernel says so at once.
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("{:?} does not answer", self.kind);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How a person would reach it, with the default pin.
    pub(crate) fn target(&self) -> Target {
        target(self.address, OPERATOR, Suites::Prefer17)
    }

    /// Whether the server is on, whatever the BMC says.
    pub(crate) fn is_on(&self) -> bool {
        std::fs::read_to_string(&self.state).unwrap().trim() == "on"
    }

    pub(crate) fn switch_on(&self) {
        std::fs::write(&self.state, "on\n").unwrap();
    }

    pub(crate) fn switch_off(&self) {
        std::fs::write(&self.state, "off\n").unwrap();
    }

    /// How many power-offs arrived.
    pub(crate) fn power_offs(&self) -> usize {
        self.lines("power.log").len()
    }

    /// The requests that arrived in sessions, as `netfn cmd` (only the kind with suite 17 writes them down).
    pub(crate) fn requests(&self) -> Vec<String> {
        self.lines("power.requests")
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.state.with_file_name(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

pub(crate) fn target(address: SocketAddr, (user, password): (&str, &str), suites: Suites) -> Target {
    let credentials = Credentials::new(user, &password.to_owned().into(), None).unwrap();
    Target { address, credentials, suites }
}

fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the one place of these tests that reads the environment")]
fn python() -> PathBuf {
    std::env::var_os("APELORA_IPMI_PYTHON")
        .expect("APELORA_IPMI_PYTHON names a Python with pyghmi: run scripts/test ipmi")
        .into()
}

fn pyghmi(kind: &str, state: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(python());
    command.arg(repository().join("tests/labs/ipmi-bmc.py"));
    command.args(["--kind", kind, "--guid", UUID, "--state"]).arg(state);
    command.args(["--addr", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--user", &format!("{}:3:{}", OPERATOR.0, OPERATOR.1)]);
    command.args(["--user", &format!("{}:2:{}", USER.0, USER.1)]);
    command
}

fn ipmi_sim(folder: &Path, state: &Path, address: SocketAddr) -> Command {
    let chassis = folder.join("chassis");
    let state = state.display();
    // Called as `chassis get power`, answers `power:0|1`; and as `chassis set power 0|1`.
    let script = format!(
        "#!/bin/sh\n\
         case \"$1 $2 $3\" in\n\
         'get power '*) if [ \"$(cat '{state}')\" = on ]; then echo power:1; else echo power:0; fi;;\n\
         'get boot '*) echo boot:default;;\n\
         'set power 1') echo on > '{state}';;\n\
         'set power 0') echo off > '{state}'; echo off >> '{state}.log';;\n\
         *) exit 1;;\n\
         esac\n"
    );
    std::fs::write(&chassis, script).unwrap();
    let methods = "none md2 md5 straight";
    let configuration = format!(
        "name \"bmc\"\n\
         set_working_mc 0x20\n\
         startlan 1\n\
         addr {} {}\n\
         priv_limit admin\n\
         allowed_auths_callback {methods}\n\
         allowed_auths_user {methods}\n\
         allowed_auths_operator {methods}\n\
         allowed_auths_admin {methods}\n\
         guid {}\n\
         endlan\n\
         chassis_control \"/bin/sh {}\"\n\
         user 2 true \"{}\" \"{}\" operator 10 {methods}\n\
         user 3 true \"{}\" \"{}\" user 10 {methods}\n",
        address.ip(),
        address.port(),
        UUID.replace('-', ""),
        chassis.display(),
        OPERATOR.0,
        OPERATOR.1,
        USER.0,
        USER.1,
    );
    std::fs::write(folder.join("conf"), configuration).unwrap();
    let emulator = "mc_setbmc 0x20\n\
                    mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n\
                    mc_enable 0x20\n";
    std::fs::write(folder.join("emulator"), emulator).unwrap();
    let mut command = Command::new("ipmi_sim");
    command.arg("-c").arg(folder.join("conf")).arg("-f").arg(folder.join("emulator"));
    command.arg("-s").arg(folder).arg("-n");
    command
}

/// What a switch-off looked like from the client's side.
#[derive(Debug, Default)]
pub(crate) struct Fenced {
    pub(crate) readings: Vec<Reported>,
    pub(crate) sends: Vec<SendReport>,
    pub(crate) errors: Vec<IpmiError>,
}

impl Fenced {
    pub(crate) fn is_off(&self) -> bool {
        self.readings.last().is_some_and(|reading| reading.power == Power::Off)
    }
}

/// Switches a server off as the supervisor's episode does: identity and power, one power-off after each fresh reading of
/// On (two at most), then readings until the first Off. A conversation that breaks is opened again, `conversations`
/// times at most. At every reading `seen` is called.
pub(crate) async fn fence(
    target: &Target,
    timers: Timers,
    conversations: usize,
    mut seen: impl FnMut(&Reported),
) -> Fenced {
    let mut fenced = Fenced::default();
    for _ in 0..conversations {
        let mut conversation = match Conversation::open(target, timers, soon()).await {
            Ok(conversation) => conversation,
            Err(error) => {
                fenced.errors.push(error);
                continue;
            }
        };
        for _ in 0..10 {
            match conversation.read(is_mapped, soon()).await {
                Ok(reading) => {
                    seen(&reading);
                    fenced.readings.push(reading);
                }
                Err(error) => {
                    fenced.errors.push(error);
                    break;
                }
            }
            if fenced.is_off() {
                break;
            }
            if fenced.sends.len() < 2 {
                fenced.sends.push(conversation.force_off(soon(), soon()).await);
            }
        }
        conversation.close(soon()).await;
        if fenced.is_off() {
            break;
        }
    }
    fenced
}
