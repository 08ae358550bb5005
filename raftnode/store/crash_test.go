package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

const crashDir, crashKind = "HOLDFAST_CRASH_DIR", "HOLDFAST_CRASH_KIND"

// TestMain is also the process that TestAKilledMemberKeepsWhatItAcknowledged kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeUntilKilled(dir, os.Getenv(crashKind)); err != nil {
			fmt.Println("error", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled does what a member does, in a small way, and says what it
// acknowledged: term and last index.
func writeUntilKilled(dir, kind string) error {
	s, err := Open(options(dir, kind))
	if err != nil {
		return err
	}
	term, last, err := position(s)
	if err != nil {
		return err
	}
	for {
		term++
		if err := s.Stable.SetUint64([]byte(keyTerm), term); err != nil {
			return err
		}
		for range 20 {
			if err := s.Logs.StoreLog(entry(last+1, term)); err != nil {
				return err
			}
			last++
			fmt.Println("acknowledged", term, last)
		}
		if err := compact(s, last-10, term); err != nil {
			return err
		}
		if err := s.Logs.DeleteRange(last-2, last); err != nil { // a conflict
			return err
		}
		last -= 3
		fmt.Println("acknowledged", term, last)
	}
}

func compact(s *Store, index, term uint64) error {
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, index, term, raftConfiguration, 1, trans)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(sink, "state %d", index); err != nil {
		return err
	}
	if err := sink.Close(); err != nil {
		return err
	}
	first, err := s.Logs.FirstIndex()
	if err != nil || index < first+20 {
		return err
	}
	return s.Logs.DeleteRange(first, index-15)
}

func TestAKilledMemberKeepsWhatItAcknowledged(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		dir := fastDir(t)
		r := rand.New(rand.NewPCG(1, 2))
		kills := 12
		if testing.Short() {
			kills = 3
		}
		for range kills {
			term, last := killWriter(t, dir, kind, r.IntN(60)+1)
			s := open(t, dir, kind)
			gotTerm, err := s.Stable.GetUint64([]byte(keyTerm))
			require.NoError(t, err)
			require.GreaterOrEqual(t, gotTerm, term)
			gotLast, err := s.Logs.LastIndex()
			require.NoError(t, err)
			require.GreaterOrEqual(t, gotLast, last-3, "what is said of a conflict may come after it")
			first, err := s.Logs.FirstIndex()
			require.NoError(t, err)
			requireEntries(t, s, first, gotLast)
			require.NoError(t, s.Close())
		}
	})
}

// killWriter runs a writer, kills it after so many lines and returns its last word.
func killWriter(t *testing.T, dir, kind string, lines int) (term, last uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashKind+"="+kind)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	said := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			_ = cmd.Process.Kill()
		}
		line, err := said.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		_, err = fmt.Sscanf(line, "acknowledged %d %d", &term, &last)
		require.NoError(t, err, line)
	}
	_ = cmd.Wait()
	require.NotZero(t, last)
	return term, last
}
