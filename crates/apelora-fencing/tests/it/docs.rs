//! `docs/fencing.md` says what the code says.

use apelora_fencing::guard::Finding;
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::{Limits, decide};

fn page() -> String {
    let root = crate::data::root();
    std::fs::read_to_string(root.join("docs/fencing.md")).unwrap()
}

#[test]
fn every_reason_is_documented_with_its_sentence_and_remedy() {
    let page = page();
    let missing: Vec<_> = ReasonCode::ALL
        .iter()
        .map(|r| format!("| `{}` | {} | {} |", r.as_str(), r.sentence(), r.remedy()))
        .filter(|row| !page.contains(row))
        .collect();
    assert!(missing.is_empty(), "docs/fencing.md lacks:\n{}", missing.join("\n"));
}

#[test]
fn every_guard_is_documented() {
    let page = page();
    let decision = decide(&crate::guards::ripe(), &Limits::PRODUCTION);
    for Finding { guard, .. } in &decision.verdicts[0].findings {
        assert!(
            page.contains(&format!("| `{}` | ", guard.as_str())),
            "docs/fencing.md lacks `{}`",
            guard.as_str()
        );
    }
}
