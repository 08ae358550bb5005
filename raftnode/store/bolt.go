package store

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// memberKey holds the member's id inside raft.db, so that a file of another member is detected
// (S21).
var memberKey = []byte("HoldfastMember")

// openBolt checks raft.db and opens it (S144). bbolt trusts its pages: on a damaged one it may
// panic, fault or loop, so the structure is walked before it is opened.
func openBolt(d dataDir, member string) (boltStore, error) {
	path := d.boltPath()
	if err := checkBolt(path); err != nil {
		return nil, refuse(path, remedyRejoin, "it is damaged: %w", err)
	}
	db, err := openBoltNoCheck(d)
	if err != nil {
		return nil, refuse(path, remedyRejoin, "cannot be opened: %w", err)
	}
	got, err := db.Get(memberKey)
	if err == nil && string(got) != member {
		err = fmt.Errorf("it belongs to member %q, this is member %q", got, member)
	}
	if err != nil {
		_ = db.Close()
		return nil, refuse(path, "put this member's own file back, or "+remedyRejoin, "not this member's: %w", err)
	}
	return db, nil
}

// boltSyncsNothing says whether bbolt leaves syncs to diskBolt.
func (d dataDir) boltSyncsNothing() bool {
	if plantedbug.Is(plantedbug.FsyncLeftOut) {
		return true
	}
	return d.disk != nil
}

func openBoltNoCheck(d dataDir) (db boltStore, err error) {
	err = catchPanic(func() (err error) {
		inner, err := raftboltdb.New(raftboltdb.Options{
			Path:                    d.boltPath(),
			NoSync:                  d.boltSyncsNothing(),
			MsgpackUseNewTimeFormat: true,
			BoltOptions: &bbolt.Options{
				Timeout:        time.Second,
				NoFreelistSync: true,
				FreelistType:   bbolt.FreelistMapType,
			},
		})
		if err != nil {
			return err
		}
		db, err = d.wrapBolt(inner)
		return err
	})
	return db, err
}

// createBolt creates an empty raft.db with the member's id in it.
func createBolt(d dataDir, member string) error {
	db, err := openBoltNoCheck(d)
	if err != nil {
		return fmt.Errorf("make %s: %w", d.boltPath(), err)
	}
	err = db.Set(memberKey, []byte(member))
	return errors.Join(err, db.Close())
}

// boltStore is raft.db: the stable store, and the log of a member whose log store is boltdb.
type boltStore interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// wrapBolt has a simulated disk sync what raft-boltdb wrote when it opened the file, and all that it
// will write.
func (d dataDir) wrapBolt(inner *raftboltdb.BoltStore) (boltStore, error) {
	if d.disk == nil {
		return inner, nil
	}
	if err := d.syncBy(d.boltPath(), inner.Sync); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return &diskBolt{BoltStore: inner, dir: d}, nil
}

// diskBolt is raft.db on a simulated disk: bbolt syncs by the operating system only, so each
// transaction is synced here after it.
type diskBolt struct {
	*raftboltdb.BoltStore
	dir dataDir
	mu  sync.Mutex
}

func (b *diskBolt) transact(write func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	if plantedbug.Is(plantedbug.FsyncLeftOut) {
		return nil
	}
	return b.dir.syncBy(b.dir.boltPath(), b.BoltStore.Sync)
}

// StoreLog implements raft.LogStore.
func (b *diskBolt) StoreLog(l *raft.Log) error { return b.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (b *diskBolt) StoreLogs(logs []*raft.Log) error {
	return b.transact(func() error { return b.BoltStore.StoreLogs(logs) })
}

// DeleteRange implements raft.LogStore.
func (b *diskBolt) DeleteRange(low, high uint64) error {
	return b.transact(func() error { return b.BoltStore.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (b *diskBolt) Set(key, val []byte) error {
	return b.transact(func() error { return b.BoltStore.Set(key, val) })
}

// SetUint64 implements raft.StableStore.
func (b *diskBolt) SetUint64(key []byte, val uint64) error {
	return b.transact(func() error { return b.BoltStore.SetUint64(key, val) })
}
