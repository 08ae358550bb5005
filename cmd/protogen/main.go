// Command protogen generates the Go code of the module's .proto files, in their directories:
//
//	go run ./cmd/protogen         writes what differs
//	go run ./cmd/protogen -check  changes no file, and fails if one differs
//
// The compiler of the .proto files is a library and the plugins are tools of the module, so
// that go.mod pins all of them and nothing else has to be installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "change no file; fail if one differs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	generated, err := generate(ctx, root)
	if err != nil {
		return err
	}
	stale, err := differing(root, generated)
	if err != nil || len(stale) == 0 {
		return err
	}
	if check {
		return errors.New("these files differ from what their .proto files give; run make generate and commit:\n  " + strings.Join(stale, "\n  "))
	}
	return write(root, stale, generated)
}

// moduleRoot finds the module's root with the go command, so that protogen works in every directory of the module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	file := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(file) != "go.mod" {
		return "", errors.New("not inside a Go module")
	}
	return filepath.Dir(file), nil
}
