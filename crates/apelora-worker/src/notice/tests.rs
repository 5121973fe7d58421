use super::*;

#[test]
fn a_notice_is_a_sentence_that_names_the_member_and_the_remedy() {
    let ended = Notice::Ended { member: "s3".into(), outcome: Outcome::Failed, reason: ReasonCode::NeverOff };
    let text = ended.to_string();
    assert!(text.contains("s3") && text.contains("confirm it by hand"), "{text}");
    let refused = Notice::Refused {
        member: "s2".into(),
        reasons: vec![ReasonCode::NotMinority, ReasonCode::LeaseTooShort],
        sentence: "Half of them.".into(),
    };
    assert_eq!(
        refused.to_string(),
        "s2 is not switched off: Half of them. All reasons: not_minority, lease_too_short."
    );
}

#[test]
fn it_is_as_loud_as_it_matters() {
    let seen = |status| Notice::Seen { member: "s1".into(), status };
    assert_eq!(seen(Some(Status::Online)).level(), Level::Info);
    assert_eq!(seen(Some(Status::Offline)).level(), Level::Warn);
    assert_eq!(seen(None).level(), Level::Warn);
    assert_eq!(Notice::Distrusted { member: "s1".into() }.level(), Level::Error);
}

#[test]
fn a_listener_that_went_away_does_no_harm() {
    let (sender, receiver) = mpsc::unbounded_channel();
    let notices = Notices::new(Some(sender));
    drop(receiver);
    notices.tell(Notice::StoreReadable);
}

#[test]
fn a_name_makes_no_line_of_its_own() {
    let project = "a\nDANGER:\u{1b}[31m".to_owned();
    let line = Notice::Started { project, instance: "db".into(), on: "s2".into() }.line();
    assert_eq!(line, "Instance db (project a\\nDANGER:\\u{1b}[31m) runs again on s2.");
}
