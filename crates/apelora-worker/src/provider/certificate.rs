//! What is shown of a BMC's certificate: its digest and when it ends.
//!
//! The certificate was verified before; this only reads one date out of it (RFC 5280 section 4.1), so that an end that is
//! near is known before the night in which it matters.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use time::{Date, Month, OffsetDateTime, Time};

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0] EXPLICIT`, the version.
const VERSION: u8 = 0xa0;

/// SHA-256 of the DER form, in hexadecimal digits.
pub(crate) fn digest(der: &[u8]) -> String {
    Sha256::digest(der).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a string cannot fail.
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok());
        text
    })
}

/// `notAfter` of a certificate in DER form.
pub(crate) fn not_after(der: &[u8]) -> Option<OffsetDateTime> {
    let (certificate, _) = expect(SEQUENCE, der)?;
    let (tbs, _) = expect(SEQUENCE, certificate)?;
    let rest = match element(tbs)? {
        (VERSION, _, rest) => rest,
        _ => tbs,
    };
    let (_serial, rest) = expect(INTEGER, rest)?;
    let (_signature, rest) = expect(SEQUENCE, rest)?;
    let (_issuer, rest) = expect(SEQUENCE, rest)?;
    let (validity, _) = expect(SEQUENCE, rest)?;
    let (_, _not_before, rest) = element(validity)?;
    let (kind, text, _) = element(rest)?;
    moment(kind, text)
}

/// One element: tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // No certificate on this way is larger than three bytes can say.
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, the only forms that RFC 5280 allows.
fn moment(kind: u8, text: &[u8]) -> Option<OffsetDateTime> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match (kind, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = two(digits)?;
            (if year < 50 { 2000 + i32::from(year) } else { 1900 + i32::from(year) }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (century, rest) = two(digits)?;
            let (year, rest) = two(rest)?;
            (100 * i32::from(century) + i32::from(year), rest)
        }
        _ => return None,
    };
    let (month, rest) = two(rest)?;
    let (day, rest) = two(rest)?;
    let (hour, rest) = two(rest)?;
    let (minute, rest) = two(rest)?;
    let (second, _) = two(rest)?;
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    Some(date.with_time(Time::from_hms(hour, minute, second).ok()?).assume_utc())
}

fn two(digits: &[u8]) -> Option<(u8, &[u8])> {
    let (pair, rest) = digits.split_at_checked(2)?;
    match *pair {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some((10 * (a - b'0') + (b - b'0'), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use apelora_lab::redfish::{CertificatePlan, Identity, Life};
    use time::macros::datetime;

    use super::*;

    #[test]
    fn the_end_of_real_certificates_is_read() {
        for (life, end) in
            [(Life::Valid, datetime!(2120-01-01 0:00 UTC)), (Life::Expired, datetime!(2021-01-01 0:00 UTC))]
        {
            let plan = CertificatePlan { life, ..CertificatePlan::for_address([127, 0, 0, 1].into()) };
            let made = Identity::self_signed(&plan).unwrap();
            assert_eq!(not_after(made.der()), Some(end));
            assert_eq!(digest(made.der()).len(), 64);
        }
    }

    #[test]
    fn dates_have_two_forms_and_no_third() {
        for (kind, text, expected) in [
            (UTC_TIME, "491231235959Z", Some(datetime!(2049-12-31 23:59:59 UTC))),
            (UTC_TIME, "500101000000Z", Some(datetime!(1950-01-01 0:00 UTC))),
            (GENERALIZED_TIME, "99991231235959Z", Some(datetime!(9999-12-31 23:59:59 UTC))),
            (UTC_TIME, "4912312359Z", None),
            (UTC_TIME, "491231235959+0100", None),
            (UTC_TIME, "491331235959Z", None),
            (UTC_TIME, "4912312359 9Z", None),
            (GENERALIZED_TIME, "20230229000000Z", None),
            (GENERALIZED_TIME, "20240229000000.5Z", None),
            (0x16, "491231235959Z", None),
        ] {
            assert_eq!(moment(kind, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn no_bytes_make_it_fail_otherwise_than_by_none() {
        let plan = CertificatePlan::for_address([127, 0, 0, 1].into());
        let made = Identity::self_signed(&plan).unwrap();
        let der = made.der();
        // What is cut before the date has none; nothing panics.
        assert!((0..90).all(|at| not_after(&der[..at]).is_none()));
        for at in 0..der.len().min(200) {
            for value in [0, 0x30, 0x7f, 0x80, 0x83, 0x84, 0xff] {
                let mut changed = der.to_vec();
                changed[at] = value;
                let _ = not_after(&changed);
            }
        }
        assert_eq!(not_after(&[0x30, 0x83, 0xff, 0xff, 0xff]), None);
    }
}
