//go:build race

package raftnode

import "time"

// testHeartbeat is longer under the race detector, where everything takes several times as long.
const testHeartbeat = 400 * time.Millisecond
