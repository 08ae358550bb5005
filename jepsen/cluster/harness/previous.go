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
)

// PreviousVariable names a binary of the previous build to use instead of building it.
const PreviousVariable = "HOLDFAST_PREVIOUS_BINARY"

// ErrNoHistory: the commit to build is not in the history that is here.
var ErrNoHistory = errors.New("the repository's history is not here")

// BuildCommit builds the binary of a commit of this repository's own history in a
// directory. The error is ErrNoHistory where the commit is not known, as in a shallow
// clone or in a tarball.
func BuildCommit(ctx context.Context, commit, dir string) (string, error) {
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
	archive, source, binary := filepath.Join(dir, "previous.tar"), filepath.Join(dir, "previous"), filepath.Join(dir, "holdfast-previous")
	if err := os.MkdirAll(source, 0o700); err != nil {
		return "", err
	}
	// -trimpath, so that the compiler's cache knows the packages again in another directory.
	for _, step := range [][]string{
		{root, "git", "archive", "--output", archive, commit},
		{source, "tar", "xf", archive},
		{source, "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/holdfast"},
	} {
		if out, err := runIn(ctx, step[0], step[1], step[2:]...); err != nil {
			return "", fmt.Errorf("build commit %s: %s: %w: %s", commit, strings.Join(step[1:3], " "), err, out)
		}
	}
	return binary, os.RemoveAll(source)
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
