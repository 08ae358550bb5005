package raftsim

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

var bubbleOf = regexp.MustCompile(`^goroutine \d+ \[.*(synctest bubble \d+)\]`)

// leftBehind are the goroutines of this bubble but the caller's own. Those are left out that wait for raft to
// answer one of its futures: a process that died in the middle answers none, and only its end would take
// them away.
func leftBehind() error {
	buf := make([]byte, 4<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	own := bubbleOf.FindStringSubmatch(stacks[0])
	for _, stack := range stacks[1:] {
		of := bubbleOf.FindStringSubmatch(stack)
		if own == nil || of == nil || of[1] != own[1] || strings.Contains(stack, "synctest.testingSynctestTest(") || strings.Contains(stack, "synctest.Run(") || waitsForRaft(stack) {
			continue
		}
		return fmt.Errorf("a goroutine is left behind:\n%s", stack)
	}
	return nil
}

// waitsForRaft tells whether a goroutine waits for a future of raft, or for those who do.
func waitsForRaft(stack string) bool {
	return strings.Contains(stack, "raft.(*deferError).Error") || strings.Contains(stack, "(*raftCalls).drain")
}
