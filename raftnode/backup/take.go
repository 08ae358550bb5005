package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// ErrRefused: this member cannot write the backup that was asked for; another one may.
var ErrRefused = errors.New("the backup is not taken")

// Source is the member whose state is backed up.
type Source interface {
	// Read is linearizable.
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
	// CopyState returns a copy of the member's applied state, in O(1), and the term of its last command.
	CopyState() (*fsm.State, uint64)
	// WaitIndex returns when the member has applied and journalled the index.
	WaitIndex(ctx context.Context, index uint64) error
	// JournalEntries yields what is journalled of [from, to], gaps included. first is the lowest index that is kept.
	JournalEntries(from, to uint64, fn func(journal.Entry) bool) (first uint64, err error)
}

// Request says which backup is wanted.
type Request struct {
	Member string // the controller's name
	// Stale is of the member's own state, which may lag behind and needs no quorum. Without it the backup has
	// everything that was acknowledged before the call.
	Stale bool
	// Increment has the commands above Since instead of the state.
	Increment bool
	Since     uint64
	// Of is the state that the increment continues, as Describe has it: one of another incarnation is refused. Nil: any.
	Of *Header
	// Base is the backup that the increment continues: one of another incarnation is refused unless the journal leads from
	// there to this one, as after a recovery. Nil: it is not known.
	Base *Header
	Now  time.Time
}

// Prepared is a backup that is known, and not written yet.
type Prepared struct {
	Header Header
	write  func(context.Context, io.Writer) error
}

// Write writes it, once. What w got is no backup unless the error is nil.
func (p *Prepared) Write(ctx context.Context, w io.Writer) error {
	return write(w, p.Header, func(w io.Writer) error { return p.write(ctx, w) })
}

// Take writes a backup. What w got is no backup unless the error is nil.
func Take(ctx context.Context, from Source, r Request, w io.Writer) (Header, error) {
	p, err := Prepare(ctx, from, r)
	if err != nil {
		return Header{}, err
	}
	return p.Header, p.Write(ctx, w)
}

// Prepare copies the state, which holds nobody up.
func Prepare(ctx context.Context, from Source, r Request) (*Prepared, error) {
	if !r.Stale {
		if _, err := from.Read(ctx, func(*fsm.State) error { return nil }); err != nil {
			return nil, err
		}
	}
	state, term := from.CopyState()
	if state.Cluster().ID == "" {
		return nil, fmt.Errorf("%w: this member knows no cluster yet", ErrRefused)
	}
	h := headerOf(state, term, r.Member, r.Now)
	if !r.Increment {
		return &Prepared{Header: h, write: func(_ context.Context, w io.Writer) error { return state.WriteDump(w, term) }}, nil
	}
	h.Kind, h.Since = Increment, r.Since
	if r.Of != nil && !h.continues(r.Of) {
		return nil, fmt.Errorf("%w: the state is of incarnation %d (%s), what it would continue is of %d (%s): take a full backup", ErrRefused, h.Incarnation, h.IncarnationID, r.Of.Incarnation, r.Of.IncarnationID)
	}
	if err := from.WaitIndex(ctx, h.Index); err != nil {
		return nil, err
	}
	in := &increment{source: from, header: h, skipped: state.Cluster().Skipped}
	if err := in.checkBase(r.Base); err != nil {
		return nil, err
	}
	if h.Since > h.Index {
		return nil, fmt.Errorf("%w: index %d is not reached: the state is at %d", ErrRefused, h.Since, h.Index)
	}
	if err := in.checkBegin(); err != nil {
		return nil, err
	}
	return &Prepared{Header: h, write: in.write}, nil
}

// increment copies a range of the journal.
type increment struct {
	source  Source
	header  Header
	skipped []fsm.Skipped
}

// checkBegin refuses before anything is written when the journal begins too late.
func (in *increment) checkBegin() error {
	h := in.header
	if h.Since == h.Index {
		return nil
	}
	first, err := in.source.JournalEntries(h.Since+1, h.Since+1, func(journal.Entry) bool { return true })
	if err != nil {
		return err
	}
	if first == 0 || first > h.Since+1 {
		return fmt.Errorf("%w: the journal of %s begins at index %d, not at %d: ask another controller, or take a full backup", ErrRefused, h.Member, first, h.Since+1)
	}
	return nil
}

// write copies the entries, and fails at a gap.
func (in *increment) write(ctx context.Context, w io.Writer) error {
	if in.header.Since == in.header.Index {
		return nil
	}
	var failed error
	var buf []byte
	first, err := in.source.JournalEntries(in.header.Since+1, in.header.Index, func(e journal.Entry) bool {
		if failed = ctx.Err(); failed != nil {
			return false
		}
		if e.Gap {
			failed = fmt.Errorf("%w: the journal of %s has a gap from index %d to %d (%s): ask another controller, or take a full backup", ErrRefused, in.header.Member, e.Index, e.GapTo, e.Reason)
			return false
		}
		skipped := slices.ContainsFunc(in.skipped, func(s fsm.Skipped) bool { return s.Index == e.Index })
		buf = entry{index: e.Index, term: e.Term, skipped: skipped, command: e.Command}.appendTo(buf[:0])
		_, failed = w.Write(buf)
		return failed == nil
	})
	switch {
	case failed != nil:
		return failed
	case err == nil && first > in.header.Since+1:
		return fmt.Errorf("%w: the journal of %s was cut at its beginning meanwhile, to index %d: take a full backup", ErrRefused, in.header.Member, first)
	}
	return err
}
