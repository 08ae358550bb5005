// Package records is what a host keeps on disk: who it is, which wishes it acted on (S14),
// and one small record per volume, and one per snapshot that is being cut. Each is written
// and synced before what it announces. Everything else is learned by observing.
package records
