// Package replay reads the log of a cluster from what its members kept of it (the journals), and decides it again from its
// beginning with the state machine of this build: what was decided must be decided again, and the hash at every
// checkpoint, and at the end, must be the one that the members have.
package replay
