package store

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// The kinds of log store that a data directory can be created with (S21).
const (
	WAL    = "wal"
	BoltDB = "boltdb"
)

const (
	defaultHang         = 5 * time.Second
	defaultSegmentSize  = 64 << 20
	defaultCacheEntries = 4096
	// retainSnapshots is how many Raft snapshots are kept: the newest and two to fall back to
	// (S135).
	retainSnapshots = 3
)

// Options say where a member keeps its durable state, and which callbacks report a failing disk.
type Options struct {
	// Dir is the data directory. It is created with mode 0700 when it is absent.
	Dir string
	// Kind is the log store, WAL (when empty) or BoltDB. It is fixed at the first start (S21).
	Kind string
	// Hang is how long one call may be outstanding before OnHang; 5 s when zero.
	// Time during which the process was stopped does not count.
	Hang time.Duration
	// SegmentSize is the size of a wal segment in bytes; 64 MiB when zero.
	SegmentSize int
	// CacheEntries is the size of the cache of recent entries; 4096 when zero.
	CacheEntries int
	// Verify decodes and checks a complete Raft snapshot, during Open. Raft is offered the newest
	// one that it accepts. Nil trusts the file's checksum.
	Verify func(meta *raft.SnapshotMeta, content io.Reader) error
	// CheckHeader reads the beginning of a finished Raft snapshot, before anything of the folder is changed. Its error says that a
	// newer build wrote it; what is damaged is no such error. Nil: none is refused.
	CheckHeader func(io.Reader) error
	// CheckEntry is asked about each entry of the log, during Open and before Raft sees any. Its error says that a newer
	// build wrote the entry. Nil: none is refused.
	CheckEntry func(*raft.Log) error
	// EntriesFirst has CheckEntry asked before anything of the folder is changed, too, and the log read twice: for who only
	// looks whether the folder can be used.
	EntriesFirst bool

	// OnFatal is called once, with the first failure of the store. No call succeeds afterwards:
	// the process has to exit (S133).
	OnFatal func(what string, err error)
	// OnHang is called once, from a goroutine of its own, when a call on the log or
	// the vote is outstanding for longer than Hang (S132, S27).
	OnHang func(what string)
	// OnSync is called with the time that each append to the log or to the vote
	// took; it must not block.
	OnSync func(time.Duration)

	Logger *slog.Logger
	// Disk makes files durable; the operating system when nil.
	Disk Disk
}

// withDefaults fills in defaults and validates the rest.
func (o Options) withDefaults() (Options, error) {
	if o.Kind == "" {
		o.Kind = WAL
	}
	if o.Kind != WAL && o.Kind != BoltDB {
		return o, fmt.Errorf("unknown log store %q: want %s or %s", o.Kind, WAL, BoltDB)
	}
	if o.Dir == "" {
		return o, fmt.Errorf("no data folder given")
	}
	if o.Hang <= 0 {
		o.Hang = defaultHang
	}
	if o.SegmentSize <= 0 {
		o.SegmentSize = defaultSegmentSize
	}
	if o.CacheEntries <= 0 {
		o.CacheEntries = defaultCacheEntries
	}
	return o.withNoOpCallbacks(), nil
}

// withNoOpCallbacks replaces callbacks that the caller did not set by functions that do nothing.
func (o Options) withNoOpCallbacks() Options {
	if o.Verify == nil {
		o.Verify = func(_ *raft.SnapshotMeta, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	}
	if o.OnFatal == nil {
		o.OnFatal = func(string, error) {}
	}
	if o.OnHang == nil {
		o.OnHang = func(string) {}
	}
	if o.OnSync == nil {
		o.OnSync = func(time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
