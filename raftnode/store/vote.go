package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Raft's keys in the stable store.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
)

// voteFile is the content of vote.json: the new values of all keys, and the previous value of the
// one that changed last. A crash between writing it and raft.db leaves the previous value in
// raft.db; every other difference is damage (S22).
type voteFile struct {
	Values  map[string][]byte `json:"values"`
	Changed string            `json:"changed,omitempty"`
	Before  []byte            `json:"before,omitempty"`
}

// voteStore is the stable store: raft.db and vote.json with the same values. A member that lost
// its vote could vote twice in one term.
type voteStore struct {
	db     raft.StableStore
	guard  *ioGuard
	dir    dataDir
	member string

	mu     sync.Mutex
	values map[string][]byte // what both files hold; reads are served from it
}

// createVoteStore creates the file of a member that has never voted.
func createVoteStore(d dataDir, member string) error {
	return d.writeChecksummed(d.votePath(), member, voteFile{Values: map[string][]byte{}})
}

// openVoteStore compares the two copies and refuses when they differ in more than an interrupted
// change.
func openVoteStore(d dataDir, db raft.StableStore, g *ioGuard, member string) (*voteStore, error) {
	v := &voteStore{db: db, guard: g, dir: d, member: member}
	var b voteFile
	if err := readChecksummed(d.votePath(), member, &b); err != nil {
		if os.IsNotExist(err) {
			return nil, err
		}
		return nil, refuse(d.votePath(), remedyRejoin, "cannot be read: %w", err)
	}
	if v.values = b.Values; v.values == nil {
		v.values = map[string][]byte{}
	}
	for _, key := range []string{keyTerm, keyVoteTerm, keyVoteCand} {
		if err := v.reconcileKey(key, b); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// reconcileKey compares one key. A change that reached only vote.json was never acknowledged, and
// completing it is safe: terms and votes only grow.
func (v *voteStore) reconcileKey(key string, b voteFile) error {
	stored, err := v.db.Get([]byte(key))
	if err != nil && err.Error() != raftboltdb.ErrKeyNotFound.Error() {
		return refuse(v.dir.votePath(), remedyRejoin, "cannot compare %s with raft.db: %w", key, err)
	}
	want, known := b.Values[key]
	switch {
	case bytes.Equal(stored, want):
		return nil
	case known && key == b.Changed && bytes.Equal(stored, b.Before):
		return v.db.Set([]byte(key), want)
	}
	return refuse(v.dir.votePath(), remedyRejoin, "it and raft.db disagree on %s: %x and %x", key, want, stored)
}

// Set makes one key durable in both files.
func (v *voteStore) Set(key, val []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	old, known := v.values[string(key)]
	if known && bytes.Equal(old, val) {
		return v.guard.err() // durable already: Raft writes its term again at each start
	}
	if string(key) == keyTerm && plantedbug.Is(plantedbug.TermNotPersisted) {
		v.values[keyTerm] = bytes.Clone(val)
		return v.guard.err()
	}
	return v.guard.write("write the vote", func() error {
		next := make(map[string][]byte, len(v.values)+1)
		for k, val := range v.values {
			next[k] = val
		}
		next[string(key)] = bytes.Clone(val)
		if err := v.dir.writeChecksummed(v.dir.votePath(), v.member, voteFile{Values: next, Changed: string(key), Before: old}); err != nil {
			return err
		}
		if err := v.db.Set(key, val); err != nil {
			return err
		}
		v.values = next
		return nil
	})
}

// Get returns a copy of a key's value, or raft-boltdb's ErrKeyNotFound, whose text Raft compares.
func (v *voteStore) Get(key []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.guard.err(); err != nil {
		return nil, err
	}
	val, known := v.values[string(key)]
	if !known {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return bytes.Clone(val), nil
}

// SetUint64 stores a number as Set does.
func (v *voteStore) SetUint64(key []byte, val uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 reads a number as Get does.
func (v *voteStore) GetUint64(key []byte) (uint64, error) {
	val, err := v.Get(key)
	if err != nil {
		return 0, err
	}
	if len(val) != 8 {
		return 0, fmt.Errorf("%s is no number", key)
	}
	return binary.BigEndian.Uint64(val), nil
}

// currentTerm is Raft's current term, 0 when none is stored.
func (v *voteStore) currentTerm() uint64 {
	t, err := v.GetUint64([]byte(keyTerm))
	if err != nil {
		return 0
	}
	return t
}
