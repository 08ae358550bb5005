package verbs

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// fileVerbs runs commands on files whose filesystem counts what they change.
type fileVerbs struct {
	t      *testing.T
	binary string
	fs     *faultfs.FS
	at     string
	live   string // where its content is, past what is injected
}

func newFileVerbs(t *testing.T, binary string) *fileVerbs {
	t.Helper()
	if why := faultfs.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	below := t.TempDir()
	f := &fileVerbs{t: t, binary: binary, at: t.TempDir(), live: filepath.Join(below, "live")}
	var err error
	f.fs, err = faultfs.Mount(below, f.at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.fs.Unmount()) })
	return f
}

// fileVerb is a command that works in a folder, which begins as a copy of another one.
type fileVerb struct {
	name    string
	from    string // empty: nothing
	command func(dir string) []string
	ended   func(dir string) // asserts that it came to its end
	refuses bool             // it is refused where it came to its end before
	every   int              // of the steps one in so many, in the short form: each costs much; 0: all
}

// killed runs the command in folders of its own, killed at its first change of a name, at its second, and so on until it comes to its end
// unharmed; in the long form also at each write and sync. After each kill the same command, repeated, comes to the same end.
func (f *fileVerbs) killed(v fileVerb) {
	f.t.Helper()
	drilled(f.t, v.command("DIR"))
	begin, step := time.Now(), 0
	every := max(1, v.every)
	if *long {
		every = 1
	}
	for ; ; step += every {
		dir := filepath.Join(f.at, v.name)
		require.NoError(f.t, f.copyOf(v.from, dir))
		killed := f.killedAt(step, v.command(dir)...)
		res := harness.Run(f.t.Context(), f.binary, v.command(dir)...)
		require.True(f.t, res.Code == 0 || v.refuses && res.Code == 1, "%s after a kill at step %d: %s\n%s", v.name, step, res.Stderr, res.Stdout)
		v.ended(dir)
		require.NoError(f.t, os.RemoveAll(dir))
		if !killed {
			break
		}
	}
	require.NotZero(f.t, step)
	f.t.Logf("%s was killed at one in %d of %d steps in %s", v.name, every, step, time.Since(begin).Round(time.Millisecond))
}

// killedAt kills a command in its change of the filesystem after so many, and tells whether it got there. One that did not must have
// succeeded.
func (f *fileVerbs) killedAt(after int, args ...string) bool {
	f.t.Helper()
	fault := faultfs.HangName
	if *long {
		fault = faultfs.Hang
	}
	held := f.fs.Inject(faultfs.Rule{Fault: fault, After: after, Times: 1})
	defer held.End()
	cmd := exec.CommandContext(f.t.Context(), f.binary, args...)
	ended := make(chan error, 1)
	out, err := os.Create(filepath.Join(f.t.TempDir(), "output"))
	require.NoError(f.t, err)
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(f.t, cmd.Start())
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(out.Name())
			require.NoError(f.t, err, "%v: %s", args, said)
			return false
		case <-time.After(time.Millisecond):
		}
		if held.Hits() > 0 {
			require.NoError(f.t, cmd.Process.Kill())
			held.End() // what hangs in the kernel ends first
			require.Error(f.t, <-ended, "it was killed")
			return true
		}
	}
}

// issue issues the certificates of a controller and a node, which expire within a month.
func (f *fileVerbs) issue(from, to string) {
	f.t.Helper()
	for _, role := range []string{"controller", "node"} {
		f.must(issueFrom(from, to, role)...)
	}
}

func issueFrom(from, to, role string) []string {
	return []string{"ca", "issue", "--ca-dir", from + "/ca", "--out", to + "/" + role, "--role", role, "--name", "x", "--validity", "100h"}
}

// copyOf makes a folder with what is in another one.
func (f *fileVerbs) copyOf(from, dir string) error {
	if from == "" {
		return os.Mkdir(dir, 0o700)
	}
	return exec.CommandContext(f.t.Context(), "cp", "-a", from, dir).Run()
}

func (f *fileVerbs) must(args ...string) string {
	f.t.Helper()
	res := harness.Run(f.t.Context(), f.binary, args...)
	require.Zero(f.t, res.Code, "%v: %s", args, res.Stderr)
	return res.Stdout
}

func inFolders(dir string, args ...string) []string {
	return append(args, "--ca-dir", dir+"/ca", "--folder", dir+"/controller", "--folder", dir+"/node", "--yes")
}

// nothingLeft: the command's plan has nothing to do.
func (f *fileVerbs) nothingLeft(dir string, args ...string) {
	f.t.Helper()
	command := inFolders(dir, args...)
	require.NotContains(f.t, f.must(command[:len(command)-1]...), "todo")
}

// TestCAVerbsGoOnWhereTheyWereKilled: the stages of a rotation, and the renewal of what expires.
func TestCAVerbsGoOnWhereTheyWereKilled(t *testing.T) {
	f := newFileVerbs(t, testBinary(t))
	stages := [][]string{{"ca", "rotate"}, {"ca", "rotate", "--switch"}, {"ca", "rotate", "--finish", "--even-if-in-use"}}
	names := []string{"begin", "switch", "finish"}
	before := t.TempDir()
	f.killed(fileVerb{name: "make", refuses: true,
		command: func(dir string) []string {
			return []string{"ca", "make", "--ca-dir", dir + "/ca", "--cluster", "drill"}
		},
		ended: func(dir string) { f.issue(dir, dir) }})
	f.must("ca", "make", "--ca-dir", before+"/ca", "--cluster", "drill")
	f.killed(fileVerb{name: "issue", from: before,
		command: func(dir string) []string { return issueFrom(dir, dir, "node") },
		ended: func(dir string) {
			_, err := tls.LoadX509KeyPair(dir+"/node/node-x.crt", dir+"/node/node-x.key")
			require.NoError(t, err)
		}})
	f.issue(before, before)
	f.killed(fileVerb{name: "renew", from: before,
		command: func(dir string) []string { return inFolders(dir, "ca", "renew") },
		ended:   func(dir string) { f.nothingLeft(dir, "ca", "renew") }})
	for i, stage := range stages {
		f.killed(fileVerb{name: names[i], from: before,
			command: func(dir string) []string { return inFolders(dir, stage...) },
			ended:   func(dir string) { f.nothingLeft(dir, stage...) }})
		f.must(inFolders(before, stage...)...)
	}
}

// TestS24_BackupVerbsGoOnWhereTheyWereKilled: a backup, a bundle, a restore and a recovery; and restores that are refused.
func TestS24_BackupVerbsGoOnWhereTheyWereKilled(t *testing.T) {
	o := start(t, harness.Options{Flags: []string{"--log-store=boltdb"}}) // its files are small
	f := newFileVerbs(t, o.binary)
	_, err := o.NewCO().Create(t.Context(), harness.Spec{Name: "kept"})
	require.NoError(t, err)
	f.killed(fileVerb{name: "backup",
		command: func(dir string) []string { return []string{"backup", dir + "/file", "--dir", o.Dir} },
		ended:   func(dir string) { require.Regexp(t, `(?m)^volumes +1$`, f.must("backup", "verify", dir+"/file")) }})
	f.killed(fileVerb{name: "bundle", refuses: true, every: 12,
		command: func(dir string) []string { return []string{"bundle", dir + "/file.tar.gz", "--dir", o.Dir} },
		ended: func(dir string) {
			require.Contains(t, f.must("history", "--bundle", dir+"/file.tar.gz"), "create_volume")
		}})
	backup := filepath.Join(t.TempDir(), "backup")
	o.ask("backup", backup)
	require.NoError(t, o.AwaitAgreement(t.Context()))
	s, err := o.Status(t.Context())
	require.NoError(t, err)
	l, err := o.Layout()
	require.NoError(t, err)
	require.NoError(t, o.Stop(t.Context()))
	f.refusedRestores(backup, l.DataDir("c1"))
	f.killed(fileVerb{name: "restore",
		command: func(dir string) []string {
			return []string{"restore", "--data-dir", dir + "/data", "--backup", backup, "--log-store", "boltdb", "--advertise", "127.0.0.1:9", "--yes"}
		},
		ended: func(dir string) {
			require.Contains(t, f.must("restore", "--data-dir", dir+"/data", "--backup", backup, "--advertise", "127.0.0.1:9"), "already")
		}})
	recovery := []string{"recover", "--advertise", "127.0.0.1:9"}
	for _, m := range s.Members {
		if m.ID != "c1" {
			recovery = append(recovery, "--without", m.MemberID)
		}
	}
	survivor := t.TempDir()
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", l.DataDir("c1"), survivor+"/data").Run())
	f.killed(fileVerb{name: "recover", from: survivor, every: 3,
		command: func(dir string) []string { return append(recovery, "--yes", "--data-dir", dir+"/data") },
		ended: func(dir string) {
			require.Contains(t, f.must(append(recovery, "--data-dir", dir+"/data")...), "done already")
		}})
}
