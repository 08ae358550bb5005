//go:build !race

package raftnode

import "time"

// testHeartbeat keeps tests short, and tolerates a loaded machine.
const testHeartbeat = 150 * time.Millisecond
