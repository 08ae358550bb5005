package backup

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Files names a full backup and the increments since, in any order.
type Files struct {
	Full       string
	Increments []string
	Identities []age.Identity
	At         uint64 // the index that is wanted; 0: the last that the files reach
	// Watch gets what is read of the files, each twice, to tell how far the work is; nil: nobody does.
	Watch io.Writer
}

func (f *Files) check(path string) (h Header, err error) {
	err = withFile(path, f.Identities, f.Watch, func(r io.Reader) (err error) {
		h, err = Check(r)
		return err
	})
	return h, err
}

// Content is the state that backups give.
type Content struct {
	State *fsm.State
	Term  uint64 // of the last command in State
	Full  Header
	Last  Header // of the increment that reaches furthest, or of the full backup
}

// Index is that of the state.
func (c *Content) Index() uint64 { return c.State.Cluster().Index }

// Load checks all files to their ends and replays the increments on the full backup. Each increment must
// give the state whose hash it names, also where At is before its end.
func Load(f Files) (*Content, error) {
	full, err := f.check(f.Full)
	if err != nil {
		return nil, err
	}
	if full.Kind != Full {
		return nil, fmt.Errorf("read the backup %s: %w: it is an increment; name the full backup first", f.Full, ErrMismatch)
	}
	parts, err := checkIncrements(f, full)
	if err != nil {
		return nil, err
	}
	r := &replay{at: f.At, content: Content{Full: full, Last: full, Term: full.Term}}
	if err := withFile(f.Full, f.Identities, f.Watch, r.full); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := withFile(p.path, f.Identities, f.Watch, r.increment); err != nil {
			return nil, err
		}
	}
	return r.finish()
}

type part struct {
	path   string
	header Header
}

// checkIncrements checks the increments and orders them.
func checkIncrements(f Files, full Header) (parts []part, err error) {
	for _, path := range f.Increments {
		h, err := f.check(path)
		switch {
		case err != nil:
			return nil, err
		case h.Kind != Increment:
			return nil, fmt.Errorf("read the backup %s: %w: it is a full backup, not an increment", path, ErrMismatch)
		case h.ClusterID != full.ClusterID:
			return nil, fmt.Errorf("read the backup %s: %w: it is of cluster %s, the full backup of %s", path, ErrMismatch, h.ClusterID, full.ClusterID)
		}
		parts = append(parts, part{path, h})
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.header.Since, b.header.Since), cmp.Compare(a.header.Index, b.header.Index))
	})
	return parts, nil
}

// replay folds backups into a state.
type replay struct {
	content Content
	state   *fsm.State // goes on to the end of each increment
	term    uint64
	at      uint64
	lives   []string // the incarnations that state had so far
}

func (r *replay) full(in io.Reader) error {
	body, err := newReader(in)
	if err != nil {
		return err
	}
	state, dump, err := fsm.ReadDump(body)
	switch {
	case errors.Is(err, fsm.ErrNewer):
		return fmt.Errorf("%w: %w", ErrNewer, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := body.header.mismatch(state); err != nil {
		return err
	}
	if r.at != 0 && r.at < dump.Index {
		return fmt.Errorf("%w: index %d is wanted, and it begins at %d: take an older backup", ErrMismatch, r.at, dump.Index)
	}
	r.state, r.term, r.lives = state, body.header.Term, []string{body.header.life()}
	return nil
}

// increment applies the entries that the state does not have yet.
func (r *replay) increment(in io.Reader) error {
	body, err := newReader(in)
	if err != nil {
		return err
	}
	h := body.header
	switch at := r.content.Last.Index; {
	case h.Since > at:
		return fmt.Errorf("%w: it continues at index %d, and what is before it ends at %d: an increment is missing", ErrMismatch, h.Since, at)
	case h.Index <= at:
		return r.checkLife(&h) // another one has all of it
	}
	entries := bufio.NewReaderSize(body, frameBytes)
	last := h.Since
	for {
		e, err := readEntry(entries)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && (e.index <= last || e.index > h.Index) {
			err = fmt.Errorf("%w: it has index %d after %d, and ends at %d", ErrDamaged, e.index, last, h.Index)
		}
		if err == nil {
			last = e.index
			err = r.entry(e)
		}
		if err != nil {
			return err
		}
	}
	if err := r.checkLife(&h); err != nil {
		return err
	}
	r.content.Last = h
	return h.mismatch(r.state)
}

// checkLife refuses an increment of an incarnation to which no entry led: after a restore indexes are issued again. A recovery
// keeps them, so what was written across it goes on.
func (r *replay) checkLife(h *Header) error {
	if slices.Contains(r.lives, h.life()) {
		return nil
	}
	return fmt.Errorf("%w: it is of incarnation %s, the full backup of %s, and no entry leads from there: name a full backup that was written after the restore or the recovery",
		ErrMismatch, h.life(), r.content.Full.life())
}

// entry applies one entry. The state at the index that is wanted is set aside.
func (r *replay) entry(e entry) (err error) {
	if e.index <= r.state.Cluster().Index {
		return nil
	}
	if r.content.State == nil && r.at != 0 && e.index > r.at {
		r.keep()
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: this build cannot apply index %d: %v", ErrNewer, e.index, cause)
		}
	}()
	cmd := new(fsmpb.Command)
	switch unreadable := proto.Unmarshal(e.command, cmd); {
	case e.skipped && unreadable != nil:
		cmd = new(fsmpb.Command)
		fallthrough
	case e.skipped:
		sum := sha256.Sum256(e.command)
		r.state.Skip(e.index, sum[:], cmd)
	case unreadable != nil:
		return fmt.Errorf("%w: index %d is no command: %w", ErrDamaged, e.index, unreadable)
	default:
		r.state.Apply(e.index, cmd)
		if cmd.GetReplaceIncarnation() != nil {
			now := Describe(r.state.Cluster())
			r.lives = append(r.lives, now.life())
		}
	}
	r.term = e.term
	return nil
}

// keep sets the state that is wanted aside.
func (r *replay) keep() { r.content.State, r.content.Term = r.state.Fork(), r.term }

func (r *replay) finish() (*Content, error) {
	if r.at > r.content.Last.Index {
		return nil, fmt.Errorf("%w: index %d is wanted, and they reach %d only: name the increments up to there", ErrMismatch, r.at, r.content.Last.Index)
	}
	if r.content.State == nil {
		r.keep()
	}
	return &r.content, nil
}
