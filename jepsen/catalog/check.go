package catalog

// Check is one thing that is verified.
type Check string

// The checks.
const (
	Invariants      Check = "invariants"        // State.Check finds nothing
	Linearizable    Check = "linearizable"      // some order of the calls explains every answer
	CheckerEnded    Check = "checker-ended"     // no checker ran out of time
	Acknowledged    Check = "acknowledged"      // what was acknowledged is in the final log
	ReplayEqual     Check = "replay-equal"      // the log, decided again from its beginning, gives the state
	HashesEqual     Check = "hashes-equal"      // members have equal hashes at equal indexes
	NoStaleRead     Check = "no-stale-read"     // a read sees every call that ended before it began
	Audit           Check = "audit"             // the state, devices, mounts, loop devices and DRBD agree on every host
	NoDuplicate     Check = "no-duplicate"      // no volume has two devices on one host
	Stamps          Check = "stamps"            // blocks never go back to an earlier writer or an earlier write
	NoLostWrite     Check = "no-lost-write"     // an acknowledged write is on every replica that counts as up to date
	ReplicasEqual   Check = "replicas-equal"    // both replicas of an unused volume have the same content
	OnePrimary      Check = "one-primary"       // no two hosts can write to one volume
	InstantEqual    Check = "one-instant"       // a snapshot, and a group of them, has the content of one instant
	FreshIsZero     Check = "fresh-is-zero"     // a new volume has nothing of an earlier one
	FormatOnce      Check = "format-once"       // nothing is formatted that has data
	Keys            Check = "keys"              // a key that the log permits opens the header, and one that was replaced does not
	Sites           Check = "sites"             // no endpoint gives or changes what is another site's
	NoSecret        Check = "no-secret"         // no canary of a secret is in any file, log or report
	NoLeak          Check = "no-leak"           // no goroutine, descriptor, loop device or mount is left over
	Liveness        Check = "liveness"          // after the faults everything that was asked for comes true
	ReplaysEqual    Check = "replays-equal"     // the same seed gives the same trace
	EffectsCovered  Check = "effects-covered"   // every effect's boundary was crashed at
	OneLeaderATerm  Check = "one-leader-a-term" // no term has two leaders, and none goes back
	LogsEqual       Check = "logs-equal"        // members' committed entries are equal
	RefusesDamage   Check = "refuses-damage"    // a member with damaged files says so instead of serving
	ClockOfTheLab   Check = "lab-clock"         // every guest's clock goes on: else the lab failed, not the product
	ServesAgain     Check = "serves-again"      // after a fault the cluster serves within its bound of virtual or real time
	WatchWakes      Check = "watch-wakes"       // a watch wakes for every change that its member applied
	NothingWasEmpty Check = "not-empty"         // the run had what a run must have
)
