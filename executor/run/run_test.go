package run

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// withTool is a runner that also finds the given script.
func withTool(t *testing.T, name, script string) *Runner {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755))
	r := New()
	r.finder.dirs = append(r.finder.dirs, dir)
	return r
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		script  string
		stdout  string
		code    int
		message string
	}{
		"what it prints is returned":          {script: "echo yes", stdout: "yes\n"},
		"the environment is fixed":            {script: `echo "$LC_ALL$HOLDFAST_SECRET"`, stdout: "C\n"},
		"arguments are not split by a shell":  {script: `echo "$1"`, stdout: "a b;c\n"},
		"an exit code is reported":            {script: "echo no >&2; echo more >&2; exit 3", code: 3, message: "tool ended with code 3: no more"},
		"a signal has no exit code":           {script: "kill -9 $$", code: -1, message: "tool ended with code -1"},
		"a silent failure names its code too": {script: "exit 1", code: 1, message: "tool ended with code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOLDFAST_SECRET", "leaked")
			r := withTool(t, "tool", tc.script)
			for range 2 {
				out, err := r.Run(t.Context(), Command{Tool: "tool", Args: []string{"a b;c"}})
				require.Equal(t, tc.stdout, string(out))
				var failed *Error
				if tc.code == 0 {
					require.NoError(t, err)
				} else {
					require.ErrorAs(t, err, &failed)
					require.Equal(t, tc.code, failed.Code)
					require.EqualError(t, err, tc.message)
				}
			}
		})
	}
}

func TestAMissingToolNamesItsPackage(t *testing.T) {
	r := New()
	r.finder.dirs = []string{t.TempDir()}
	_, err := r.Run(t.Context(), Command{Tool: "mkfs.xfs"})
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "install the package xfsprogs")
	_, err = New().LookPath("../bin/sh")
	require.ErrorAs(t, err, &missing, "a tool is a bare name")
}

func TestTheWholeGroupIsKilledAtTheDeadline(t *testing.T) {
	dir := t.TempDir()
	r := withTool(t, "tool", "sleep 1000 & echo $! > "+dir+"/pid; wait")
	r.grace = time.Minute
	var pid int
	for within := 300 * time.Millisecond; pid == 0; within *= 2 { // until it is enough to begin
		began := time.Now()
		_, err := r.Run(t.Context(), Command{Tool: "tool", Timeout: within})
		var failed *Error
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.TimedOut)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, failed.Stuck())
		require.Less(t, time.Since(began), time.Minute)
		text, _ := os.ReadFile(dir + "/pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	require.Eventually(t, func() bool { return ended(pid) },
		time.Minute, 5*time.Millisecond, "the grandchild is gone too")
}

// A command that has ended is not called killed because its time was over just then. Its
// pid may be that of another process by now, which is left alone.
func TestACommandThatHasEndedIsNotKilled(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, other.Start())
	ended := newChild("/bin/true", Command{})
	ended.cmd.Process = other.Process // whose pid it had
	_, _ = ended.stdout.Write([]byte("done"))
	close(ended.done)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		out, err := New().waitChild(ctx, ended, "tool")
		require.NoError(t, err)
		require.Equal(t, "done", string(out))
	}
	require.NoError(t, syscall.Kill(other.Process.Pid, syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, other.Wait(), &exit)
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal(), "nobody else ended it")
}

// ended tells whether a process ended; nobody may have waited for it yet.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestACancelledCallKillsItsCommand(t *testing.T) {
	r := withTool(t, "tool", "sleep 100")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := r.Run(ctx, Command{Tool: "tool"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.Run(ctx, Command{Tool: "tool"})
	require.ErrorIs(t, err, context.Canceled, "nothing is started for a caller that is gone")
}

// A child in state D cannot be made at will, so a fake one is used that exits when told.
func TestAChildThatSurvivesSIGKILLIsCountedAsStuck(t *testing.T) {
	r := withTool(t, "tool", "sleep 100")
	r.grace = time.Millisecond
	c := newChild("/bin/true", Command{})
	require.NoError(t, c.cmd.Start())
	err := r.kill(c, "tool", context.DeadlineExceeded)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, r.Stuck())
	require.ErrorContains(t, err, "does not end although it was killed")
	select {
	case <-failed.Stuck():
		t.Fatal("parked until the child is gone")
	default:
	}
	c.err = c.cmd.Wait()
	close(c.done)
	<-failed.Stuck()
	require.Eventually(t, func() bool { return r.Stuck() == 0 }, time.Minute, time.Millisecond)
}

func TestOutputIsBounded(t *testing.T) {
	r := withTool(t, "tool", "head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2; exit 1")
	out, err := r.Run(t.Context(), Command{Tool: "tool"})
	require.Len(t, out, maxOutputBytes)
	require.Less(t, len(err.Error()), 2*maxErrorBytes)
}

func TestErrorTextsAreValidUTF8(t *testing.T) {
	r := withTool(t, "tool", "printf 'no such file: \\377\\376name' >&2; exit 1")
	_, err := r.Run(t.Context(), Command{Tool: "tool"})
	require.ErrorContains(t, err, "no such file: \uFFFDname")
	require.True(t, utf8.ValidString(err.Error()))
}

func TestAllOutputGoesToAWriterThatIsGiven(t *testing.T) {
	r := withTool(t, "tool", "head -c 1000000 /dev/zero; echo no >&2; exit 3")
	for _, outlive := range []bool{false, true} {
		var all bytes.Buffer
		out, err := r.Run(t.Context(), Command{Tool: "tool", Stdout: &all, OutlivesParent: outlive})
		require.Empty(t, out)
		require.Equal(t, 1000000, all.Len())
		require.EqualError(t, err, "tool ended with code 3: no")
	}
}

func TestBothStreamsGoToOneWriter(t *testing.T) {
	r := withTool(t, "tool", "echo out; echo err >&2")
	for _, outlive := range []bool{false, true} {
		var all bytes.Buffer
		_, err := r.Run(t.Context(), Command{Tool: "tool", Stdout: &all, BothStreams: true, OutlivesParent: outlive})
		require.NoError(t, err)
		require.Equal(t, "out\nerr\n", all.String())
		out, err := r.Run(t.Context(), Command{Tool: "tool", BothStreams: true})
		require.NoError(t, err)
		require.Equal(t, "out\nerr\n", string(out))
	}
}

// The process that starts the command is this test's binary itself, killed while the
// command runs.
func TestACommandThatOutlivesItsParentIsNotStopped(t *testing.T) {
	for name, tc := range map[string]struct{ outlive, lives bool }{
		"it goes on, and may speak": {outlive: true, lives: true},
		"others end":                {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if inner := os.Getenv("RUN_TEST_DIR"); inner != "" {
				r := withTool(t, "tool", "echo $$ >"+inner+"/pid; touch "+inner+"/began; while [ ! -e "+inner+"/go ]; do sleep 0.01; done; echo a; echo b >&2; touch "+inner+"/done")
				_, _ = r.Run(t.Context(), Command{Tool: "tool", OutlivesParent: tc.outlive})
				return
			}
			outer := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
			outer.Env = append(os.Environ(), "RUN_TEST_DIR="+dir, "TMPDIR="+dir)
			require.NoError(t, outer.Start())
			require.Eventually(t, func() bool { return exists(dir + "/began") }, time.Minute, 5*time.Millisecond)
			require.NoError(t, outer.Process.Kill())
			_ = outer.Wait()
			require.NoError(t, os.WriteFile(dir+"/go", nil, 0o600))
			if tc.lives {
				require.Eventually(t, func() bool { return exists(dir + "/done") }, time.Minute, 5*time.Millisecond)
				return
			}
			text, err := os.ReadFile(dir + "/pid")
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return ended(pid) }, time.Minute, 5*time.Millisecond)
			require.False(t, exists(dir+"/done"))
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rootWithShell is a folder that has the shell, with what it is linked with.
func rootWithShell(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may give a command another root")
	}
	root := t.TempDir()
	files := []string{"/bin/sh"}
	if linked, err := exec.Command("ldd", "/bin/sh").Output(); err == nil {
		for _, word := range strings.Fields(string(linked)) {
			if strings.HasPrefix(word, "/") {
				files = append(files, word)
			}
		}
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), content, 0o755))
	}
	return root
}

func TestACommandHasTheRootThatItIsGiven(t *testing.T) {
	root := rootWithShell(t)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "opt"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/tool"), []byte("#!/bin/sh\nread line < /only-here; echo \"$line $PWD $1\"\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "only-here"), []byte("inside\n"), 0o600))
	for range 2 {
		out, err := New().Run(t.Context(), Command{Root: root, Tool: "/opt/tool", Args: []string{"a b"}})
		require.NoError(t, err)
		require.Equal(t, "inside / a b\n", string(out))
		_, err = New().Run(t.Context(), Command{Root: "/", Tool: "/opt/tool-of-nobody"})
		require.ErrorIs(t, err, os.ErrNotExist)
		_, err = New().Run(t.Context(), Command{Root: root, Tool: "tool"})
		require.ErrorContains(t, err, "not an absolute path")
	}
}
