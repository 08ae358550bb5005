package backup

import (
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// checkBase refuses an increment that could not be replayed on what it is to continue. After a restore indexes are issued
// again, and what the journal has above an index does not follow what a former incarnation had there. A recovery keeps
// the indexes, and the journal has the entry that it began with.
func (in *increment) checkBase(base *Header) error {
	h := &in.header
	switch {
	case base == nil || h.continues(base):
		return nil
	case base.ClusterID != h.ClusterID:
		return fmt.Errorf("%w: this is cluster %s, what it would continue is of cluster %s", ErrRefused, h.ClusterID, base.ClusterID)
	case h.Since > h.Index:
		return in.refuseBase(base, fmt.Sprintf("its index %d is not reached since: the cluster was restored", h.Since))
	}
	found, err := in.incarnations()
	switch {
	case err != nil:
		return err
	case !found.reached:
		return in.refuseBase(base, "the journal of "+h.Member+" begins too late to tell whether one leads to the other")
	case !found.follows(base):
		return in.refuseBase(base, "no entry leads from there: the cluster was restored since")
	}
	return nil
}

func (in *increment) refuseBase(base *Header, why string) error {
	return fmt.Errorf("%w: the cluster is of incarnation %s, what it would continue is of %s, and %s: make a full backup", ErrRefused, in.header.life(), base.life(), why)
}

// incarnations are those that a journal has the beginning of.
type incarnations struct {
	reached bool    // the journal has all that is above the increment's beginning
	before  *Header // the one in force there; nil: it began before the journal
	next    *Header // the first one above
}

// follows tells whether the first incarnation above the base replaced that of the base.
func (n *incarnations) follows(base *Header) bool {
	switch {
	case n.next == nil:
		return false
	case n.before == nil:
		return n.next.Incarnation == base.Incarnation+1
	}
	return n.before.life() == base.life()
}

func (in *increment) incarnations() (found incarnations, err error) {
	h := &in.header
	first, err := in.source.JournalEntries(1, h.Index, func(e journal.Entry) bool {
		switch began := in.began(&e); {
		case e.Gap && e.Index <= h.Since:
			found.before = nil
		case began == nil:
		case e.Index <= h.Since:
			found.before = began
		case found.next == nil:
			found.next = began
		}
		return found.next == nil
	})
	found.reached = first > 0 && first <= h.Since+1
	return found, err
}

// began is the incarnation that the entry began; nil for every other one.
func (in *increment) began(e *journal.Entry) *Header {
	cmd, out := &fsmpb.Command{}, &fsmpb.Outcome{}
	skipped := slices.ContainsFunc(in.skipped, func(s fsm.Skipped) bool { return s.Index == e.Index })
	if e.Gap || skipped || proto.Unmarshal(e.Command, cmd) != nil || proto.Unmarshal(e.Outcome, out) != nil || out.GetRejection() != nil {
		return nil
	}
	if c := cmd.GetReplaceIncarnation(); c != nil {
		return &Header{Incarnation: c.GetCounter(), IncarnationID: hex.EncodeToString(c.GetIncarnationId())}
	}
	if c := cmd.GetBootstrap(); c != nil {
		return &Header{Incarnation: 1, IncarnationID: hex.EncodeToString(c.GetIncarnationId())}
	}
	return nil
}
