//! A node in memory to which plans are applied as the store applies them.

use apelora_maintenance::{
    Authority, Denial, Entry, LockedNode, NodeFacts, Operation, Plan, Scope, Stamp, plan,
};
use time::{Date, Duration, Month, PrimitiveDateTime, Time};
use uuid::Uuid;

/// A node with its rows as `(row number, entry)`, and a clock that the test moves.
pub struct Node {
    pub locked: LockedNode,
    rows: Vec<(u64, Entry)>,
    next_row: u64,
    pub clock: PrimitiveDateTime,
    changes: u128,
}

impl Node {
    pub fn new() -> Self {
        let facts = NodeFacts {
            uuid: "6d85703a-565d-469a-96ce-30b6de53079d".into(),
            name: Some("n1".into()),
            owner: Some("owner-a".into()),
            lessee: Some("lessee-a".into()),
            provision_state: Some("active".into()),
            ..NodeFacts::default()
        };
        let midnight = Time::from_hms(0, 0, 0).unwrap();
        Self {
            locked: LockedNode { node: facts, entries: Vec::new() },
            rows: Vec::new(),
            next_row: 1,
            clock: PrimitiveDateTime::new(Date::from_calendar_date(2026, Month::June, 10).unwrap(), midnight),
            changes: 0,
        }
    }

    pub fn stamp(&mut self) -> Stamp {
        self.changes += 1;
        self.clock += Duration::seconds(1);
        Stamp {
            change: Uuid::from_u128(self.changes << 64),
            entry: Uuid::from_u128((self.changes << 64) + 1),
            at: self.clock,
            host: "apelora-1".into(),
        }
    }

    /// Plans and, if granted, applies: rows out, rows changed, rows in, columns.
    pub fn change(&mut self, operation: &Operation, by: &Authority) -> Result<Plan, Denial> {
        self.change_if(operation, by, &mut |_| true)
    }

    pub fn change_if(
        &mut self,
        operation: &Operation,
        by: &Authority,
        may_release: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Plan, Denial> {
        let stamp = self.stamp();
        let plan = plan(operation, &self.locked, by, may_release, &stamp)?;
        self.apply(&plan);
        Ok(plan)
    }

    pub fn apply(&mut self, plan: &Plan) {
        self.rows.retain(|(_, e)| !plan.delete().contains(&e.uuid));
        for change in plan.amend() {
            let (_, row) = self.rows.iter_mut().find(|(_, e)| e.uuid == change.uuid).unwrap();
            row.reason.clone_from(&change.reason);
            row.extra.clone_from(&change.extra);
        }
        for entry in plan.insert() {
            let key = |e: &Entry| (e.entry_type.clone(), e.scope, e.asserted_by_project.clone());
            assert!(self.rows.iter().all(|(_, e)| key(e) != key(entry) && e.uuid != entry.uuid), "{entry:?}");
            self.rows.push((self.next_row, entry.clone()));
            self.next_row += 1;
        }
        self.rows.sort_by_key(|(row, e)| (e.asserted_at, *row));
        self.locked.entries = self.rows.iter().map(|(_, e)| e.clone()).collect();
        self.locked.node.maintenance = plan.flag();
        self.locked.node.maintenance_reason = plan.reason().map(str::to_owned);
        self.locked.node.fault = plan.fault().map(str::to_owned);
    }

    pub fn reason(&self) -> Option<&str> {
        self.locked.node.maintenance_reason.as_deref()
    }

    pub fn types(&self) -> Vec<&str> {
        self.locked.entries.iter().map(|e| e.entry_type.as_str()).collect()
    }
}

pub fn operator() -> Authority {
    who(Some(Scope::System), "op-1", "")
}

pub fn owner() -> Authority {
    who(Some(Scope::Owner), "olga", "owner-a")
}

pub fn lessee() -> Authority {
    who(Some(Scope::Lessee), "lee", "lessee-a")
}

pub fn who(scope: Option<Scope>, user: &str, project: &str) -> Authority {
    Authority { scope, user: user.into(), project: project.into() }
}

pub fn add(entry_type: &str) -> Operation {
    Operation::Add { entry_type: entry_type.into(), reason: Some("why".into()), extra: None }
}

pub fn set(reason: &str) -> Operation {
    Operation::Set { reason: Some(reason.into()) }
}
