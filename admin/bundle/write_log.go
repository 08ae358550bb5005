package bundle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// defaultEntries is how many of the newest entries go into a bundle when nothing else is said.
const defaultEntries = 10000

// addLog adds a dump of the state as it is now, the journal up to it, and a dump of an earlier state from which the journal
// leads to this one. All come from one controller: another one's journal may begin, or end, elsewhere. One whose earlier
// state is damaged is left for another; where all are, the rest is worth having.
func (w *writer) addLog(ctx context.Context) {
	g := &logGathering{writer: w}
	err := w.client.TryEach(ctx, g.gather)
	if err != nil && g.damaged != nil && ctx.Err() == nil {
		g.withoutBase = true
		err = w.client.TryEach(ctx, g.gather)
	}
	if err != nil {
		w.manifest.Log = Log{}
		w.miss(stateFile, err)
		w.miss(journalFile, err)
		return
	}
	if g.withoutBase && g.damaged != nil {
		w.miss(baseFile, g.damaged)
	}
	w.manifest.Files = append(w.manifest.Files, g.files...)
}

// logGathering is what addLog tries with one controller after the other.
type logGathering struct {
	*writer
	files       []File
	withoutBase bool  // goes on where the earlier state cannot be read
	damaged     error // why that could not be read, of the last controller where it could not
}

// gather asks one controller. Its error is retryable where the earlier state cannot be read: another one may have its own.
func (g *logGathering) gather(ctx context.Context, api adminpb.AdminClient) error {
	g.files, g.manifest.Log = nil, Log{}
	if g.withoutBase {
		g.damaged = nil
	}
	l := logReader{api: api, log: &g.manifest.Log}
	if err := g.addFile(stateFile, func(to io.Writer) (uint64, error) { return l.dumpNow(ctx, to) }); err != nil {
		return err
	}
	from, err := g.firstWanted(ctx, api)
	if err != nil {
		return err
	}
	if err := g.addFile(baseFile, func(to io.Writer) (uint64, error) { return l.dumpStored(ctx, max(1, from-1), to) }); err != nil {
		g.damaged, l.log.Base = err, 0
		if !g.withoutBase || ctx.Err() != nil {
			return status.Error(codes.Unavailable, admin.Reason(err))
		}
	}
	return g.addFile(journalFile, func(to io.Writer) (uint64, error) { return l.journal(ctx, from, to) })
}

func (g *logGathering) addFile(name string, write func(io.Writer) (uint64, error)) error {
	file, err := g.writeFile(name, write)
	if err == nil && file.Bytes > 0 {
		g.files = append(g.files, file)
	}
	return err
}

// firstWanted is the first index of the journal that is asked for.
func (w *writer) firstWanted(ctx context.Context, api adminpb.AdminClient) (uint64, error) {
	if w.Since.IsZero() {
		entries := w.Entries
		if entries == 0 {
			entries = defaultEntries
		}
		return max(1, w.manifest.Log.Index-min(entries, w.manifest.Log.Index)+1), nil
	}
	stream, err := api.History(ctx, &adminpb.HistoryRequest{})
	if err != nil {
		return 0, err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return w.manifest.Log.Index, nil
		}
		if err != nil {
			return 0, err
		}
		if at, err := time.Parse(time.RFC3339Nano, m.GetEntry().GetAt()); err == nil && !at.Before(w.Since) {
			return m.GetEntry().GetIndex(), nil
		}
	}
}

// logReader reads from one controller.
type logReader struct {
	api adminpb.AdminClient
	log *Log
}

func (l *logReader) dumpNow(ctx context.Context, to io.Writer) (uint64, error) {
	index, err := l.dump(ctx, 0, to)
	l.log.Index = index
	return index, err
}

// dumpStored writes nothing where the controller stores no Raft snapshot, or one that is newer than the state. What it
// writes was read: a dump that is cut short or damaged is an error.
func (l *logReader) dumpStored(ctx context.Context, below uint64, to io.Writer) (uint64, error) {
	piped, in := io.Pipe()
	type reading struct {
		index uint64
		err   error
	}
	read := make(chan reading, 1)
	go func() {
		_, known, err := fsm.ReadDump(piped)
		_ = piped.CloseWithError(err)
		read <- reading{known.Index, err}
	}()
	sent := &counter{w: io.MultiWriter(to, in)}
	_, err := l.dump(ctx, below, sent)
	_ = in.CloseWithError(err)
	found := <-read
	switch {
	case found.err != nil && sent.n > 0 && (err == nil || errors.Is(err, found.err)):
		return 0, fmt.Errorf("read the state that it stores: %w", found.err)
	case err != nil:
		return 0, err
	}
	l.log.Base = found.index
	return l.log.Base, nil
}

func (l *logReader) dump(ctx context.Context, stored uint64, to io.Writer) (index uint64, err error) {
	stream, err := l.api.Dump(ctx, &adminpb.DumpRequest{Stored: stored})
	if err != nil {
		return 0, err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return index, nil
		}
		if err != nil {
			return index, err
		}
		index = max(index, m.GetIndex())
		if _, err := to.Write(m.GetPart()); err != nil {
			return index, err
		}
	}
}

// journal writes the entries from an index on, and those before it that lead to it from the base.
func (l *logReader) journal(ctx context.Context, from uint64, to io.Writer) (uint64, error) {
	l.log.From = from
	if l.log.Base+1 < from {
		l.log.From = l.log.Base + 1
	}
	stream, err := l.api.History(ctx, &adminpb.HistoryRequest{From: l.log.From, To: l.log.Index})
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriter(to)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return l.log.Index, buffered.Flush()
		}
		if err != nil {
			return 0, err
		}
		if err := l.keep(m, buffered); err != nil {
			return 0, err
		}
	}
}

func (l *logReader) keep(m *adminpb.HistoryResponse, to io.Writer) error {
	if header := m.GetHeader(); header != nil {
		if header.GetIndex() < l.log.Index {
			return status.Error(codes.Unavailable, fmt.Sprintf("the journal of %s ends at index %d, before %d", header.GetMember(), header.GetIndex(), l.log.Index))
		}
		l.log.Member, l.log.KnownFrom = header.GetMember(), header.GetKnownFrom()
		return nil
	}
	e := m.GetEntry()
	_, err := protodelim.MarshalTo(to, &adminpb.HistoryEntry{
		Index: e.GetIndex(), Term: e.GetTerm(), Gap: e.GetGap(), GapTo: e.GetGapTo(), Why: e.GetWhy(), Command: e.GetCommand(), Outcome: e.GetOutcome(), Chain: e.GetChain()})
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
