package store

import (
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// The log stores that a data folder can be made with (S21).
const (
	WAL    = "wal"
	BoltDB = "boltdb"
)

// Options say where a member keeps what is durable, and who is told when the
// disk misbehaves.
type Options struct {
	// Dir is the data folder. It is made 0700 when it is absent.
	Dir string
	// Kind is the log store, WAL (when empty) or BoltDB. It is fixed at the first start (S21).
	Kind string
	// Hang is how long one call may be outstanding before OnHang; 5 s when zero.
	Hang time.Duration
	// SegmentSize is the size of a wal segment in bytes; 64 MiB when zero.
	SegmentSize int
	// CacheEntries is the size of the cache of recent entries; 4096 when zero.
	CacheEntries int
	// Verify decodes and checks a Raft snapshot wholly. Nil trusts the file checksum.
	Verify func(io.Reader) error

	// OnFatal is called once, with the first failure of the store. Nothing succeeds
	// afterwards: the process has to end.
	OnFatal func(what string, err error)
	// OnHang is called once, when a call is outstanding for longer than Hang.
	OnHang func(what string)
	// OnSync is called with the time that each durable write took.
	OnSync func(time.Duration)

	Logger *slog.Logger
}

// Store is everything durable of one Raft member.
type Store struct {
	// Logs, Stable and Snapshots are for raft.NewRaft.
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	// MemberID is this member's id, random, unique across all time (C11).
	MemberID string
}

// Open locks the data folder, checks that it is what it says (S21), sanitises the
// log against the newest whole snapshot (S22) and hands out the stores. Every
// refusal names the file and the remedy, and is ErrRefused, ErrInUse or ErrQuarantined.
func Open(o Options) (*Store, error) { panic("store: to be written") }

// ClusterID is the id of the cluster that this folder belongs to; empty until SetClusterID.
func (s *Store) ClusterID() string { panic("store: to be written") }

// SetClusterID records the cluster for ever. The same id again is no error, another is.
func (s *Store) SetClusterID(id string) error { panic("store: to be written") }

// HasExistingState tells whether this member was ever part of a cluster.
func (s *Store) HasExistingState() (bool, error) { panic("store: to be written") }

// Position is the term and index of the last entry, or of the snapshot when it is
// newer: what `recover` compares between survivors (S24).
func (s *Store) Position() (term, index uint64, err error) { panic("store: to be written") }

// Quarantine has every later Open of this folder refused, with the reason (S23). Files are kept.
func (s *Store) Quarantine(reason string) error { panic("store: to be written") }

// Close closes the files and gives up the lock. Raft must be shut down before.
func (s *Store) Close() error { panic("store: to be written") }
