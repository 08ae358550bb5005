// Package records is what a host keeps on disk: its identity, the epoch of desired state that it
// acted on (S14), one small record for each volume, and one for each snapshot that is being taken.
// Each record is written and synced before what it announces is done. Everything else is
// learned by observing the host. SlotFile (slot_file.go) is how a record survives a crash.
package records
