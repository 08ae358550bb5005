package faultfs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const (
	wide = harness.Patience
	poll = 5 * time.Millisecond
	// childVariable has this test binary be a child that does one thing in a folder.
	childVariable = "HOLDFAST_FAULTFS_CHILD"
)

// children are what a child can do; each gets a folder.
var children = map[string]func(folder string) error{
	"bbolt write": boltWrite, "bbolt read": boltRead,
	"wal write": walWrite, "wal read": walRead,
	"mount":    mountForEver,
	"hold a":   holdForEver,
	"write on": writeOn,
	"write a":  func(folder string) error { return os.WriteFile(filepath.Join(folder, "a"), []byte("y"), 0o600) },
}

func TestMain(m *testing.M) {
	what, folder, isChild := strings.Cut(os.Getenv(childVariable), "@")
	if !isChild {
		os.Exit(m.Run())
	}
	if err := children[what](folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t *testing.T, what, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+what+"@"+folder)
	cmd.Stderr = os.Stderr
	return cmd
}

// killAfter kills a child that prints numbers after so many of them. It returns the last that it printed.
func killAfter(t *testing.T, cmd *exec.Cmd, lines int) (last int) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	printed := bufio.NewReader(out)
	for n := 1; ; n++ {
		line, err := printed.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		last, err = strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		if n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	return last
}

// TestAcknowledgedWritesSurvivePowerLoss holds the filesystem against two stores that sync as they should, with
// a mapped file and with files that are allocated first. A store that lost something here, or
// could not be opened, would mean that power losses take more than what was not synced.
func TestAcknowledgedWritesSurvivePowerLoss(t *testing.T) {
	for _, store := range []string{"bbolt", "wal"} {
		t.Run(store, func(t *testing.T) {
			f := mounted(t)
			for seed := range uint64(6) {
				last := killAfter(t, child(t, store+" write", f.at), int(seed+1)*7)
				require.NoError(t, f.PowerLoss(seed))
				read, err := child(t, store+" read", f.at).Output()
				require.NoError(t, err)
				got, err := strconv.Atoi(strings.TrimSpace(string(read)))
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, last, "seed %d", seed)
			}
		})
	}
}

var bucket = []byte("b")

// boltWrite commits the numbers that follow those that are there, and prints each.
func boltWrite(folder string) error {
	db, err := bbolt.Open(filepath.Join(folder, "bolt.db"), 0o600, nil)
	if err != nil {
		return err
	}
	for {
		var number uint64
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			last, _ := b.Cursor().Last()
			if last != nil {
				number = binary.BigEndian.Uint64(last)
			}
			number++
			return b.Put(binary.BigEndian.AppendUint64(nil, number), make([]byte, 3000))
		})
		if err != nil {
			return err
		}
		fmt.Println(number)
	}
}

func boltRead(folder string) error {
	db, err := bbolt.Open(filepath.Join(folder, "bolt.db"), 0o600, nil)
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		last, _ := tx.Bucket(bucket).Cursor().Last()
		fmt.Println(binary.BigEndian.Uint64(last))
		return nil
	})
}

func walWrite(folder string) error {
	log, err := wal.Open(walFolder(folder), wal.WithSegmentSize(64<<10))
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	for err == nil {
		last++
		if err = log.StoreLog(&raft.Log{Index: last, Term: 1, Data: make([]byte, 3000)}); err == nil {
			fmt.Println(last)
		}
	}
	return err
}

func walFolder(folder string) string {
	path := filepath.Join(folder, "wal")
	_ = os.MkdirAll(path, 0o700)
	return path
}

func walRead(folder string) error {
	log, err := wal.Open(walFolder(folder), wal.WithSegmentSize(64<<10))
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	for i := uint64(1); err == nil && i <= last; i++ {
		err = log.GetLog(i, &raft.Log{})
	}
	fmt.Println(last)
	return err
}

// mountForEver mounts the folder until it is killed.
func mountForEver(folder string) error {
	below, err := os.MkdirTemp(filepath.Dir(folder), "below")
	if err != nil {
		return err
	}
	if _, err := Mount(below, folder); err != nil {
		return err
	}
	fmt.Println(1)
	select {}
}

func TestSweepUnmountsWhatAKilledProcessLeft(t *testing.T) {
	if why := WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	living := mounted(t)
	at := filepath.Join(t.TempDir(), "at")
	require.NoError(t, os.Mkdir(at, 0o700))
	killAfter(t, child(t, "mount", at), 1)
	require.Eventually(t, func() bool {
		return Sweep() == nil && mountsAt(t, at) == 0
	}, wide, poll)
	require.Equal(t, 1, mountsAt(t, living.at))
}

func mountsAt(t *testing.T, path string) int {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	require.NoError(t, err)
	return len(mounts)
}
