package stamps

import "fmt"

// Stamp says who wrote: the site, the node, the epoch of its publication, and which writer of the volume it was.
type Stamp struct {
	Site, Node, Epoch string
	Turn              int
}

// String is the stamp as it is in a block.
func (s Stamp) String() string { return fmt.Sprintf("%s %s %s %d", s.Site, s.Node, s.Epoch, s.Turn) }

// Turn is one writer's time with a volume: it wrote the numbers from From on, and those up to Acked were
// acknowledged to it; Acked is From-1 when none was.
type Turn struct {
	Stamp       Stamp
	From, Acked uint64
	// Forced: an operator's decision that acknowledged writes may be lost is on record before this turn.
	Forced bool
}

// wrote reports whether the turn may have written a number: those acknowledged, and the one in flight at its end.
func (t Turn) wrote(number uint64) bool { return t.From <= number && number <= t.Acked+1 }

// Next is the first number of the turn that follows all of these.
func Next(turns []Turn) uint64 {
	if len(turns) == 0 {
		return 1
	}
	return turns[len(turns)-1].Acked + 2
}
