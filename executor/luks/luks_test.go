package luks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	volume = fsm.VolumeID("hf-00000000-0000-4000-8000-000000000001")
	uuid   = "11111111-2222-4333-8444-555555555555"
	other  = "11111111-2222-4333-8444-666666666666"
)

// recorder records what was run, and answers with what is scripted.
type recorder struct {
	commands []run.Command
	answer   func(run.Command) ([]byte, error)
}

func (r *recorder) Run(_ context.Context, c run.Command) ([]byte, error) {
	r.commands = append(r.commands, c)
	return r.answer(c)
}

func exit(code int, text string) error {
	return &run.Error{Tool: "cryptsetup", Code: code, Output: text}
}

// newTool is the real cryptsetup, which does everything but open and close without the device mapper.
func newTool(t *testing.T) (*Tool, *recorder) {
	t.Helper()
	real := run.New()
	if _, err := real.LookPath("cryptsetup"); err != nil {
		t.Skip(err)
	}
	r := &recorder{answer: func(c run.Command) ([]byte, error) { return real.Run(t.Context(), c) }}
	return New(r, QuickDerivation), r
}

func newImage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(f.Truncate(24<<20), f.Close()))
	return path
}

func key(text string) executor.Passphrase { return executor.NewPassphrase(text) }

func TestTheHeaderIsMadeAndFound(t *testing.T) {
	tool, _ := newTool(t)
	image := newImage(t)
	header, err := tool.ProbeHeader(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true, Empty: true}, header)
	for _, again := range []string{uuid, other} {
		require.NoError(t, tool.Format(t.Context(), image, again, key("one")))
		header, err = tool.ProbeHeader(t.Context(), image)
		require.NoError(t, err)
		require.Equal(t, executor.LUKSHeader{Read: true, UUID: again, Slots: []int{0}}, header)
	}
	require.NoError(t, tool.ChangeUUID(t.Context(), image, uuid))
	header, err = tool.ProbeHeader(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, uuid, header.UUID)
	require.NoError(t, tool.WipeHeader(t.Context(), image))
	header, err = tool.ProbeHeader(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true, Empty: true}, header)
}

func TestS62_ADeviceThatCannotBeReadIsNotOneWithoutAHeader(t *testing.T) {
	tool, _ := newTool(t)
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, make([]byte, 1<<20), 0o600))
	for name, device := range map[string]string{"it is not there": "/nonexistent", "it ends too early": short} {
		_, err := tool.ProbeHeader(t.Context(), device)
		require.Error(t, err, name)
	}
	failing := New(&recorder{answer: func(run.Command) ([]byte, error) { return nil, exit(4, "Device is not compatible.") }}, nil)
	_, err := failing.ProbeHeader(t.Context(), newImage(t))
	require.ErrorIs(t, err, errDevice)
}

func TestS62_WhatIsNoHeaderIsNotEmptyEither(t *testing.T) {
	tool, _ := newTool(t)
	image := newImage(t)
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("data"), 9<<20)
	require.NoError(t, errors.Join(err, f.Close()))
	header, err := tool.ProbeHeader(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true}, header)
}

func TestS64_SlotsOfARotation(t *testing.T) {
	tool, r := newTool(t)
	image := newImage(t)
	first, second := key("first\nwith a line's end"), key("second")
	require.NoError(t, tool.Format(t.Context(), image, uuid, first))
	opens := func(slot int, k executor.Passphrase, want bool) {
		t.Helper()
		got, err := tool.OpensSlot(t.Context(), image, slot, k)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	var rejection *fsm.Rejection
	require.ErrorAs(t, tool.AddKey(t.Context(), image, 3, key("wrong"), second), &rejection)
	require.Equal(t, fsm.Unauthenticated, rejection.Reason)
	require.NoError(t, tool.AddKey(t.Context(), image, 3, first, second))
	opens(0, first, true)
	opens(3, second, true)
	opens(3, first, false)
	opens(7, first, false)
	require.Error(t, tool.AddKey(t.Context(), image, 3, first, second), "the slot is taken")
	for _, k := range []executor.Passphrase{first, key("wrong")} {
		require.ErrorAs(t, tool.KillSlot(t.Context(), image, 0, k), &rejection)
		require.Equal(t, fsm.Unauthenticated, rejection.Reason, "it opens no other slot")
	}
	for range 2 {
		require.NoError(t, tool.KillSlot(t.Context(), image, 0, second))
	}
	opens(0, first, false)
	require.ErrorAs(t, tool.KillSlot(t.Context(), image, 3, second), &rejection, "the last one")
	opens(3, second, true)
	for _, c := range r.commands {
		for _, secret := range []string{"first", "second", "wrong"} {
			require.NotContains(t, strings.Join(c.Args, " "), secret)
		}
	}
}

func TestS65_ABackupReplacesTheOneBefore(t *testing.T) {
	tool, _ := newTool(t)
	image := newImage(t)
	file := filepath.Join(t.TempDir(), "header")
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	require.NoError(t, os.WriteFile(file+".new", []byte("left by a crash"), 0o400))
	require.NoError(t, tool.AddKey(t.Context(), image, 1, key("one"), key("two")))
	require.NoError(t, tool.KillSlot(t.Context(), image, 0, key("two")))
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	require.NoError(t, tool.WipeHeader(t.Context(), image))
	require.NoError(t, tool.RestoreHeader(t.Context(), image, file))
	header, err := tool.ProbeHeader(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, []int{1}, header.Slots, "the removed key is not back")
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// S62: the device lost what is before its data; the backup, which says whose it is, brings it back, and the key opens it.
func TestS62_ABackupBringsBackALostHeader(t *testing.T) {
	tool, _ := newTool(t)
	image, file := newImage(t), filepath.Join(t.TempDir(), "header")
	_, err := tool.ProbeHeader(t.Context(), file)
	require.ErrorIs(t, err, os.ErrNotExist, "there is no backup")
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	backup, err := tool.ProbeHeader(t.Context(), file)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true, UUID: uuid, Slots: []int{0}}, backup)
	for name, want := range map[string]bool{"one": true, "two": false} {
		opens, err := tool.OpensSlot(t.Context(), file, 0, key(name))
		require.NoError(t, err)
		require.Equal(t, want, opens, "of the backup itself")
	}
	require.NoError(t, tool.WipeHeader(t.Context(), image))
	for range 2 {
		require.NoError(t, tool.RestoreHeader(t.Context(), image, file))
		opens, err := tool.OpensSlot(t.Context(), image, 0, key("one"))
		require.NoError(t, err)
		require.True(t, opens)
	}
}

func TestTheMappingIsReadFromTheKernel(t *testing.T) {
	tool := New(nil, nil)
	tool.sysfs = t.TempDir()
	have, err := tool.Mapping(t.Context(), volume)
	require.NoError(t, err)
	require.Zero(t, have)
	for dir, name := range map[string]string{"dm-3": "vg-lv", "dm-7": "hfc-00000000-0000-4000-8000-000000000001"} {
		files := map[string]string{"dm/name": name, "size": "2048", "ro": "1", "dev": "253:7"}
		require.NoError(t, os.MkdirAll(filepath.Join(tool.sysfs, dir, "dm"), 0o700))
		for file, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(tool.sysfs, dir, file), []byte(text+"\n"), 0o600))
		}
	}
	have, err = tool.Mapping(t.Context(), volume)
	require.NoError(t, err)
	require.Equal(t, executor.Device{
		Exists: true, Size: 1 << 20, ReadOnly: true, Number: unix.Mkdev(253, 7),
		Path: "/dev/dm-7", StablePath: "/dev/mapper/hfc-00000000-0000-4000-8000-000000000001",
	}, have, "the path is the kernel's own node, which a raw volume's target is bound to")
}

func TestOpenAndClose(t *testing.T) {
	const name = "hfc-00000000-0000-4000-8000-000000000001"
	var rejection *fsm.Rejection
	r := &recorder{answer: func(c run.Command) ([]byte, error) {
		if string(c.Stdin) != "second" {
			return nil, exit(2, "No key available with this passphrase.")
		}
		return nil, nil
	}}
	tool := New(r, nil)
	tool.control = os.DevNull
	require.NoError(t, tool.Open(t.Context(), volume, "/dev/loop0", executor.OpenOptions{ReadOnly: true, Discards: true}, key("first"), key(""), key("second")))
	require.Len(t, r.commands, 2)
	require.Equal(t, []string{"open", "--type", "luks2", "--allow-discards", "--readonly", "--key-file", "-", "/dev/loop0", name}, r.commands[1].Args)
	require.NoError(t, tool.Resize(t.Context(), volume, key("second")))
	require.Equal(t, []string{"resize", "--key-file", "-", name}, r.commands[2].Args)
	for _, keys := range [][]executor.Passphrase{{key("first")}, {}, {key("")}} {
		require.ErrorAs(t, tool.Open(t.Context(), volume, "/dev/loop0", executor.OpenOptions{}, keys...), &rejection)
		require.Equal(t, fsm.Unauthenticated, rejection.Reason)
	}
	require.NoError(t, tool.Open(t.Context(), volume, "/dev/loop0", executor.OpenOptions{}, key("second")))
	require.NotContains(t, r.commands[len(r.commands)-1].Args, "--allow-discards", "S61: only where it is asked for")
	for text, want := range map[string]fsm.Reason{"": 0, "Device hfc is not active.": 0} {
		r.answer = func(run.Command) ([]byte, error) {
			if text == "" {
				return nil, nil
			}
			return nil, exit(4, text)
		}
		require.NoError(t, tool.Close(t.Context(), volume), want)
	}
	r.answer = func(run.Command) ([]byte, error) { return nil, exit(5, "Device hfc is still in use.") }
	require.ErrorAs(t, tool.Close(t.Context(), volume), &rejection)
	require.Equal(t, fsm.Busy, rejection.Reason)
	r.answer = func(run.Command) ([]byte, error) { return nil, exit(4, "Device /dev/loop0 does not exist.") }
	require.ErrorIs(t, tool.Open(t.Context(), volume, "/dev/loop0", executor.OpenOptions{}, key("first")), errDevice)
	require.ErrorIs(t, tool.Close(t.Context(), volume), errDevice)
}

func TestAHostWithoutCryptsetupRefuses(t *testing.T) {
	tool := New(&recorder{answer: func(run.Command) ([]byte, error) {
		return nil, &run.MissingError{Tool: "cryptsetup", Package: "cryptsetup-bin"}
	}}, nil)
	var rejection *fsm.Rejection
	require.ErrorAs(t, tool.Format(t.Context(), "/dev/loop0", uuid, key("one")), &rejection)
	require.Equal(t, fsm.Precondition, rejection.Reason)
	require.Contains(t, rejection.Message, "cryptsetup-bin")
}

// A kernel that cannot encrypt is the host's state, not a bug: what is lacking and what to do is said.
func TestAKernelWithoutEncryptionRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		control, output, want string
	}{
		"no device mapper": {"/nonexistent", "Cannot use device hfc, name is invalid or still in use.", "has no device mapper: run `modprobe dm_crypt`"},
		"no dm_crypt":      {os.DevNull, "Check that kernel supports aes-xts-plain64 cipher (check syslog for more info).", "has no dm_crypt, or not the cipher of the volume: run `modprobe dm_crypt`"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := New(&recorder{answer: func(c run.Command) ([]byte, error) {
				if c.Args[0] == "--version" {
					return nil, nil
				}
				return nil, exit(1, tc.output)
			}}, nil)
			tool.control = tc.control
			for range 2 {
				for _, err := range []error{tool.Open(t.Context(), volume, "/dev/loop0", executor.OpenOptions{}, key("first"), key("second")), tool.Resize(t.Context(), volume, key("first"))} {
					var rejection *fsm.Rejection
					require.ErrorAs(t, err, &rejection)
					require.Equal(t, fsm.Precondition, rejection.Reason)
					require.Contains(t, rejection.Message, tc.want)
				}
			}
			require.Equal(t, tc.control == os.DevNull, tool.Check(t.Context()) == nil)
		})
	}
}

// The real cryptsetup, where the kernel has no device mapper.
func TestARealKernelWithoutEncryptionRefuses(t *testing.T) {
	tool, _ := newTool(t)
	if tool.checkDeviceMapper() == nil {
		t.Skip("this kernel has a device mapper")
	}
	image := newImage(t)
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	err := tool.Open(t.Context(), volume, image, executor.OpenOptions{}, key("one"))
	require.ErrorContains(t, err, "modprobe dm_crypt")
}

func TestS63_NoCommandHasAKeyButInItsStandardInput(t *testing.T) {
	const canary = "canary-passphrase"
	r := &recorder{answer: func(run.Command) ([]byte, error) { return []byte(`{"keyslots":{"0":{},"1":{}}}`), nil }}
	tool, image := New(r, nil), newImage(t)
	k, two := key(canary), key(canary+"-2")
	_, err := tool.OpensSlot(t.Context(), image, 0, k)
	require.NoError(t, errors.Join(err, tool.Format(t.Context(), image, uuid, k), tool.Open(t.Context(), volume, image, executor.OpenOptions{}, k),
		tool.Resize(t.Context(), volume, k), tool.AddKey(t.Context(), image, 1, k, two), tool.KillSlot(t.Context(), image, 0, two)))
	given := 0
	for _, c := range r.commands {
		require.NotContains(t, strings.Join(c.Args, " "), canary)
		if len(c.Stdin) > 0 {
			given++
			require.Contains(t, string(c.Stdin), canary)
			require.True(t, slices.Contains(c.Args, "-"))
		}
	}
	require.Equal(t, 7, given)
}
