package fsm

import (
	"bytes"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxChainBreaks bounds how many breaks a check lists.
const maxChainBreaks = 100

// ChainBreak is where a journal is not what the cluster decided.
type ChainBreak struct {
	Index uint64
	What  string
}

// ChainCheck checks the entries of a journal, which are given to it in the order in which the journal has them, against the chain
// and against the head that a state has.
type ChainCheck struct {
	First, Last   uint64 // entries with a link; 0: none
	Count         uint64 // entries with a link
	Unchained     uint64 // entries before the first one with a link
	Head          []byte // the link of the last one
	FromBeginning bool   // the first one began the chain: else it is taken as it is, as what was before it is not kept
	MatchesState  bool   // the entry at the state's index has the state's head
	Breaks        []ChainBreak
	MoreBreaks    uint64 // breaks that are not listed

	at      Cluster // of the state
	seen    uint64  // the highest index
	gap     ChainBreak
	skipped map[uint64][]byte
}

// NewChainCheck prepares the check of a journal against a state of the same cluster.
func NewChainCheck(state *State) *ChainCheck {
	c := &ChainCheck{at: state.Cluster(), skipped: map[uint64][]byte{}}
	for _, k := range c.at.Skipped {
		c.skipped[k.Index] = k.Hash
	}
	return c
}

// Skip has the entry of an index after the state's count as skipped, with the hash of its content. What the state says goes first.
func (c *ChainCheck) Skip(index uint64, hash []byte) {
	if index > c.at.Index {
		c.skipped[index] = hash
	}
}

// Gap adds a range of indexes of which the journal knows nothing.
func (c *ChainCheck) Gap(from, to uint64, why string) {
	c.gap = ChainBreak{Index: from, What: fmt.Sprintf("what was decided from here to %d is missing or damaged: %s; another controller may have it", to, why)}
	c.seen = max(c.seen, to)
	if c.Count > 0 {
		c.add(c.gap)
	}
}

// Entry adds an entry, with its link in the journal; empty: it has none.
func (c *ChainCheck) Entry(index uint64, cmd *fsmpb.Command, outcome *fsmpb.Outcome, link []byte) {
	if index <= c.seen {
		c.add(ChainBreak{index, fmt.Sprintf("it comes after index %d: entries were swapped, or one was inserted", c.seen)})
		return
	}
	c.seen = index
	switch {
	case len(link) == 0 && c.Count == 0:
		c.Unchained++
	case len(link) == 0:
		c.add(ChainBreak{index, "it has no link of the chain: it was altered or inserted"})
	case c.Count == 0:
		c.begin(index, cmd, outcome, link)
	default:
		if c.gap.Index == 0 && !bytes.Equal(link, c.link(c.Head, index, cmd, outcome)) {
			c.add(ChainBreak{index, fmt.Sprintf("it does not follow from index %d: it was altered or inserted, or an entry between them was removed", c.Last)})
		}
		c.take(index, link)
	}
}

// begin takes the first entry that has a link.
func (c *ChainCheck) begin(index uint64, cmd *fsmpb.Command, outcome *fsmpb.Outcome, link []byte) {
	c.First, c.FromBeginning = index, bytes.Equal(link, c.link(nil, index, cmd, outcome))
	switch {
	case c.FromBeginning:
	case c.gap.Index != 0:
		c.add(c.gap)
	case c.Unchained > 0:
		c.add(ChainBreak{index, "the entry before it has no link, and the chain did not begin here: entries were altered or removed"})
	}
	c.take(index, link)
}

func (c *ChainCheck) link(prev []byte, index uint64, cmd *fsmpb.Command, outcome *fsmpb.Outcome) []byte {
	if hash, skipped := c.skipped[index]; skipped {
		return SkippedLink(prev, index, hash, outcome)
	}
	return ChainLink(prev, index, cmd, outcome)
}

func (c *ChainCheck) take(index uint64, link []byte) {
	c.Count, c.Last, c.Head, c.gap = c.Count+1, index, link, ChainBreak{}
	if index != c.at.Index || len(c.at.Chain) == 0 {
		return
	}
	if c.MatchesState = bytes.Equal(link, c.at.Chain); !c.MatchesState {
		c.add(ChainBreak{index, "its link is not the one that the state has: entries up to it were replaced"})
	}
}

// End is called behind the last entry. keptFrom is the lowest index that the journal keeps; 0: it has nothing.
func (c *ChainCheck) End(keptFrom uint64) {
	if len(c.at.Chain) != 0 && c.seen < c.at.Index && keptFrom != 0 && keptFrom <= c.at.Index {
		c.add(ChainBreak{c.seen + 1, fmt.Sprintf("what was decided from here to %d, the state's index, is missing", c.at.Index)})
	}
	if len(c.at.Chain) != 0 && c.seen >= c.at.Index && keptFrom <= c.at.Index && !c.MatchesState && len(c.Breaks) == 0 {
		c.add(ChainBreak{c.at.Index, "the state has a link for it, and the journal has none"})
	}
}

func (c *ChainCheck) add(b ChainBreak) {
	if len(c.Breaks) == maxChainBreaks {
		c.MoreBreaks++
		return
	}
	c.Breaks = append(c.Breaks, b)
}
