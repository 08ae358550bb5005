package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
)

// VerifyHistory checks this member's journal against the chain of which its own state has the head. It needs no quorum.
func (s *Server) VerifyHistory(ctx context.Context, _ *adminpb.VerifyHistoryRequest) (*adminpb.VerifyHistoryResponse, error) {
	select {
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	default:
		return nil, status.Error(codes.ResourceExhausted, "verify the history: this controller verifies it already: ask again later")
	}
	state := s.Cluster.Fork()
	if err := s.awaitJournal(ctx, state.Cluster().Index); err != nil {
		return nil, err
	}
	resp, err := VerifyJournal(state, nil, func(fn func(Entry) bool) (uint64, error) {
		return s.Cluster.History(0, 0, func(e Entry) bool { return ctx.Err() == nil && fn(e) })
	})
	if err = contextError(ctx, err); err != nil {
		return nil, s.Error(err)
	}
	resp.Member = s.Name
	return resp, nil
}

func contextError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// awaitJournal waits until an index that the state is at is journalled, which comes a moment after it is applied.
func (s *Server) awaitJournal(ctx context.Context, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	for {
		found := false
		first, err := s.Cluster.History(index, index, func(Entry) bool { found = true; return false })
		if err != nil {
			return s.Error(err)
		}
		if found || first == 0 || first > index {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // the check says what is missing
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// VerifyJournal checks a journal against a state of the same cluster. history yields all of its entries, until its function
// returns false, and returns the lowest index that it keeps. skipped are the entries that this member skips, with their hashes, of
// which a state that is older than they are does not know.
func VerifyJournal(state *fsm.State, skipped map[uint64][]byte, history func(func(Entry) bool) (uint64, error)) (*adminpb.VerifyHistoryResponse, error) {
	at := state.Cluster()
	if at.ID != "" && at.FeatureLevel < fsm.Level3 {
		return nil, status.Errorf(codes.FailedPrecondition,
			"verify the history: its entries are a chain from feature level %d on, and the cluster runs at %d: `holdfast upgrade finish` raises it", fsm.Level3, at.FeatureLevel)
	}
	check := fsm.NewChainCheck(state)
	for index, hash := range skipped {
		check.Skip(index, hash)
	}
	keptFrom, err := history(func(e Entry) bool {
		if e.Command == nil {
			check.Gap(e.Index, e.GapTo, e.GapReason)
		} else {
			check.Entry(e.Index, e.Command, e.Outcome, e.Chain)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	check.End(keptFrom)
	return verifiedView(at.Index, check), nil
}

func verifiedView(index uint64, c *fsm.ChainCheck) *adminpb.VerifyHistoryResponse {
	return &adminpb.VerifyHistoryResponse{
		Index: index, First: c.First, Last: c.Last, Count: c.Count, Head: c.Head, FromBeginning: c.FromBeginning,
		MatchesState: c.MatchesState, Unchained: c.Unchained, MoreBreaks: c.MoreBreaks,
		Breaks: mapSlice(c.Breaks, func(b fsm.ChainBreak) *adminpb.HistoryBreak {
			return &adminpb.HistoryBreak{Index: b.Index, What: b.What}
		}),
	}
}

func verifyHistoryTable(w io.Writer, a *adminpb.VerifyHistoryResponse) {
	for _, b := range a.GetBreaks() {
		fmt.Fprintf(w, "index %d: %s\n", b.GetIndex(), listing.OneLine(b.GetWhat()))
	}
	if a.GetMoreBreaks() > 0 {
		fmt.Fprintf(w, "and %d more\n", a.GetMoreBreaks())
	}
	if a.GetUnchained() > 0 {
		fmt.Fprintf(w, "entries before the chain began, which nothing verifies: %d\n", a.GetUnchained())
	}
	if a.GetCount() == 0 {
		fmt.Fprintf(w, "the journal of %s has no entry of the chain\n", listing.OneLine(a.GetMember()))
		return
	}
	beginning := "the oldest that is kept, which is taken as it is"
	if a.GetFromBeginning() {
		beginning = "where the chain began"
	}
	match := "not compared with the state"
	if a.GetMatchesState() {
		match = "the head that the state has"
	}
	fmt.Fprintf(w, "first index %d, %s\nlast index %d\nentries %d\nhead %x, %s\n", a.GetFirst(), beginning, a.GetLast(), a.GetCount(), a.GetHead(), match)
}
