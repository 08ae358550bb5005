package raftnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// applyFunc applies an entry to a state; tests plant a fault in it.
type applyFunc func(s *fsm.State, index uint64, cmd *fsmpb.Command) fsm.Result

func applyCommand(s *fsm.State, index uint64, cmd *fsmpb.Command) fsm.Result {
	return s.Apply(index, cmd)
}

// skipSet is the entries that operators have this member skip, by index (S70).
type skipSet map[uint64]store.Skip

// loadSkips reads them, and checks those that the log still holds against it.
func loadSkips(s *storage) (skipSet, error) {
	all, err := s.skips()
	if err != nil {
		return nil, err
	}
	first, err := s.logs.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := s.logs.LastIndex()
	if err != nil {
		return nil, err
	}
	set := skipSet{}
	for _, k := range all {
		set[k.Index] = k
		if k.Index < first || k.Index > last || first == 0 {
			continue // in a Raft snapshot, or not received again yet
		}
		var l raft.Log
		if err := s.logs.GetLog(k.Index, &l); err != nil {
			return nil, err
		}
		if name := entryNameOf(&l); name != k.EntryName {
			return nil, fmt.Errorf("entry %d is recorded to be skipped with hash %s and term %d, and the log holds it with hash %s and term %d; remedy: remove this member from the cluster and join it again with an empty folder",
				k.Index, k.Hash, k.Term, name.Hash, name.Term)
		}
	}
	return set, nil
}

// entryNameOf names the entry.
func entryNameOf(l *raft.Log) store.EntryName {
	sum := sha256.Sum256(l.Data)
	return store.EntryName{Index: l.Index, Term: l.Term, Hash: hex.EncodeToString(sum[:])}
}

// lookup tells whether this entry is skipped. Another entry at a recorded index is a fault:
// a committed entry is never replaced.
func (s skipSet) lookup(l *raft.Log) (hash []byte, skip bool) {
	k, known := s[l.Index]
	if !known {
		return nil, false
	}
	if name := entryNameOf(l); name != k.EntryName {
		panic(fmt.Sprintf("log index %d: the recorded skip is of term %d and hash %s, the entry has term %d and hash %s",
			l.Index, k.Term, k.Hash, name.Term, name.Hash))
	}
	hash, err := hex.DecodeString(k.Hash)
	if err != nil {
		panic(fmt.Sprintf("log index %d: the hash of the recorded skip: %v", l.Index, err))
	}
	return hash, true
}

// applyOrSkip applies an entry to the state, or skips it.
func (s skipSet) applyOrSkip(state *fsm.State, l *raft.Log, cmd *fsmpb.Command, apply applyFunc) fsm.Result {
	if hash, skip := s.lookup(l); skip {
		return state.Skip(l.Index, hash, cmd)
	}
	return apply(state, l.Index, cmd)
}

// decodeCommand decodes an entry. Data that is no command is a fault, unless it is skipped.
func (s skipSet) decodeCommand(l *raft.Log) *fsmpb.Command {
	cmd := new(fsmpb.Command)
	if err := proto.Unmarshal(l.Data, cmd); err != nil {
		if _, skip := s[l.Index]; skip {
			return new(fsmpb.Command)
		}
		panic(fmt.Sprintf("log index %d: not a command: %v", l.Index, err))
	}
	return cmd
}

// recordEntryFault records at which entry the state machine faulted, before the process exits:
// an operator needs it to have the entry skipped.
func (m *Member) recordEntryFault(l *raft.Log, cause any) {
	name := entryNameOf(l)
	if err := m.storage.recordFault(store.Fault{EntryName: name, What: fmt.Sprint(cause), At: m.cfg.now()}); err != nil {
		m.log.Error("cannot record the entry that the state cannot apply", "index", l.Index, "error", err)
	}
	m.log.Error("a committed entry faults in the state, and will after each restart: start a build that can apply it on every member, "+
		"or skip it on every member with `holdfast log skip`, also on one that joins them later; `holdfast log inspect` shows it",
		"index", name.Index, "term", name.Term, "hash", name.Hash, "data_dir", m.cfg.Dir, "at", m.cfg.now().Format(time.RFC3339))
}
