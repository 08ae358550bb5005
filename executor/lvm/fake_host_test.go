package lvm

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// fakeHost stands in for the commands, with captured output, and for the kernel.
type fakeHost struct {
	lvs      []byte
	thinLS   string // of thin_ls
	outputs  map[string]string
	devices  map[string]*dmDevice
	failures map[string]error // by a command's first two words
	after    func(command string)
	message  func(text string) error // of dmsetup; nil: each succeeds
	dumps    map[string]string       // of thin_dump, by the device's id
	block    chan struct{}           // thin_dump prints its last lines when this is closed; nil: at once

	mu       sync.Mutex
	commands []string
}

func (f *fakeHost) Run(ctx context.Context, c run.Command) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	words := append([]string{c.Tool}, c.Args...)
	key := strings.Join(words[:2], " ")
	f.mu.Lock()
	f.commands = append(f.commands, strings.Join(words, " "))
	f.mu.Unlock()
	if f.after != nil {
		defer f.after(key)
	}
	if err := f.failures[key]; err != nil {
		return nil, err
	}
	switch key {
	case "dmsetup message":
		if f.message != nil {
			return nil, f.message(c.Args[len(c.Args)-1])
		}
	case "lvm lvs":
		_, _ = c.Stdout.Write(f.lvs)
	case "thin_ls -m":
		_, _ = c.Stdout.Write([]byte(f.thinLS))
	case "thin_dump -m":
		return nil, f.dump(ctx, c)
	}
	return nil, nil
}

// dump prints what was captured of a device; the last two lines once block is closed.
func (f *fakeHost) dump(ctx context.Context, c run.Command) error {
	text := f.dumps[c.Args[2]]
	end := strings.Index(text, "  </device>")
	if f.block != nil && end >= 0 {
		_, _ = c.Stdout.Write([]byte(text[:end]))
		text = text[end:]
		select {
		case <-f.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, _ = c.Stdout.Write([]byte(text))
	return nil
}

// count counts the commands that begin like this.
func (f *fakeHost) count(begin string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.commands {
		if strings.HasPrefix(line, begin) {
			n++
		}
	}
	return n
}

func (f *fakeHost) device(name string) (*dmDevice, error) { return f.devices[name], nil }

func (f *fakeHost) status(name string) (target, params string, err error) {
	target, params, _ = strings.Cut(f.outputs[name], " ")
	return target, params, nil
}

// changes are the commands that change something, without their settings.
func (f *fakeHost) changes() []string {
	var all []string
	for _, line := range f.commands {
		words := strings.Fields(line)
		if words[0] == "dmsetup" && words[1] != "message" || words[0] == "lvm" && words[1] != "lvs" && words[1] != "lvmconfig" {
			all = append(all, words[1])
		}
	}
	return all
}

const goodStatus = "thin-pool 4 115/1024 10/2048 - rw no_discard_passdown error_if_no_space - 256"

func newFakePool(t *testing.T) (*Pool, *fakeHost) {
	t.Helper()
	f := &fakeHost{lvs: readTestdata(t, "lvs.json"), thinLS: string(readTestdata(t, "thin_ls.txt")),
		outputs: map[string]string{"vg--a-pool-tpool": goodStatus}, devices: map[string]*dmDevice{}, failures: map[string]error{}}
	p, err := newPool(t.Context(), Config{VG: "vg-a", ThinPool: "pool", KnownID: testPoolID, Runner: f})
	require.NoError(t, err)
	p.kernel = f
	return p, f
}
