package store

import (
	"errors"
	"fmt"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// memberKey holds the member's id inside raft.db, so that a file of another member is detected
// (S21).
var memberKey = []byte("HoldfastMember")

// openBolt checks raft.db and opens it (S144). bbolt trusts its pages: on a damaged one it may
// panic, fault or loop, so the structure is walked before it is opened.
func openBolt(path, member string) (*raftboltdb.BoltStore, error) {
	if err := checkBolt(path); err != nil {
		return nil, refuse(path, remedyRejoin, "it is damaged: %w", err)
	}
	db, err := openBoltNoCheck(path)
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

func openBoltNoCheck(path string) (db *raftboltdb.BoltStore, err error) {
	err = catchPanic(func() (err error) {
		db, err = raftboltdb.New(raftboltdb.Options{
			Path:                    path,
			MsgpackUseNewTimeFormat: true,
			BoltOptions: &bbolt.Options{
				Timeout:        time.Second,
				NoFreelistSync: true,
				FreelistType:   bbolt.FreelistMapType,
			},
		})
		return err
	})
	return db, err
}

// createBolt creates an empty raft.db with the member's id in it.
func createBolt(path, member string) error {
	db, err := openBoltNoCheck(path)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = db.Set(memberKey, []byte(member))
	return errors.Join(err, db.Close())
}
