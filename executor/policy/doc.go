// Package policy decides what the leader proposes by itself: that a host is unreachable, and
// that a replica is replaced. Its decisions are pure: time and the results of polls are
// passed in. The state machine accepts or rejects what is proposed, so that a wrong clock or
// a late poll costs availability, never data (S27).
//
// The monitor runs on every member. Every second it polls all members for the sessions
// that they have, and for how long nothing came from their hosts. Only when no member had a host's
// session for the node timeout, counted from this member's first poll that a majority
// answered, the leader proposes that the host is unreachable (S25). Members that do not
// lead count too, so that a leader's death does not restart the count; a
// follower's count restarts after a poll that no majority answers.
//
// The leader also keeps the telemetry of pools, and attaches facts of the candidate pools to
// placements: facts exclude, they never admit (S25, S12).
//
// A replicated volume gets another replica when a host stays unreachable
// (--replace-after), by the leader's own count and only where nothing suggests that
// the host still writes (S8). Kept copies are deleted after their retention (S49),
// and conversions to replicated volumes are undone that are not done in time (S55).
package policy
