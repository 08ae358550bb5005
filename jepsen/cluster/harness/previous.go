package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// PreviousVariable names a binary of the previous build to use instead of building it.
const PreviousVariable = "HOLDFAST_PREVIOUS_BINARY"

// ErrNoHistory: the commit to build is not in the history that is here.
var ErrNoHistory = errors.New("the repository's history is not here")

// BuildCommit is the binary of a commit of this repository's own history. It is built once in the repository, and kept
// there: always in the same folder, so that the compiler's cache has the libraries of the other builds for it. The error is
// ErrNoHistory where the commit is not known, as in a shallow clone or in a tarball.
func BuildCommit(ctx context.Context, commit string) (binary string, err error) {
	if given := os.Getenv(PreviousVariable); given != "" {
		return filepath.Abs(given)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if out, err := runIn(ctx, root, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("%w: commit %s: %s", ErrNoHistory, commit, out)
	}
	dir := filepath.Join(root, ".cache", "previous", commit)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	binary = filepath.Join(dir, "holdfast")
	if _, err := runIn(ctx, dir, binary, "version"); err == nil { // else it is missing, or a loss of power cut it
		return binary, nil
	}
	return binary, buildArchive(ctx, root, commit, dir, binary)
}

// lockFolder waits for other processes that build there.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // which releases it
}

func buildArchive(ctx context.Context, root, commit, dir, binary string) error {
	archive, source := filepath.Join(dir, "source.tar"), filepath.Join(dir, "source")
	if err := errors.Join(os.RemoveAll(source), os.RemoveAll(binary+".new"), os.MkdirAll(source, 0o700)); err != nil {
		return err
	}
	for _, step := range [][]string{
		{root, "git", "archive", "--output", archive, commit},
		{source, "tar", "xf", archive},
		{source, "go", "build", "-buildvcs=false", "-o", binary + ".new", "./cmd/holdfast"},
	} {
		if out, err := runIn(ctx, step[0], step[1], step[2:]...); err != nil {
			return fmt.Errorf("build commit %s: %s: %w: %s", commit, strings.Join(step[1:3], " "), err, out)
		}
	}
	return errors.Join(os.Rename(binary+".new", binary), os.RemoveAll(source), os.Remove(archive))
}

func runIn(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Install puts a copy of a build at a path, atomically: a process that was started from that path is not
// affected, and the next one started is the new build.
func Install(build, path string) (err error) {
	from, err := os.Open(build)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read
	to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close(), os.Rename(path+".new", path))
}
