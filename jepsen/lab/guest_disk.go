package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The letters of the disks: /dev/ubdb holds the guest's state, the raw ones follow.
const (
	stateDisk = int('b')
	firstDisk = int('c')
	lastDisk  = int('p')
)

// makeDisk makes a sparse disk that is there from the next boot on.
func (g *Guest) makeDisk(letter int, size int64) error {
	path := filepath.Join(g.Dir(), fmt.Sprintf("disk-%c", letter))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	g.disks[letter] = path
	return nil
}

func (g *Guest) diskLetters() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var letters []int
	for letter := range g.disks {
		letters = append(letters, letter)
	}
	slices.Sort(letters)
	return letters
}

// Disk is the file on the host behind a disk of the guest, such as /dev/ubdc.
func (g *Guest) Disk(device string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disks[int(device[len(device)-1])]
}

// AddDisk adds a sparse disk of so many bytes, to a running guest at once, and answers its
// device, such as /dev/ubdd. It stays over boots.
func (g *Guest) AddDisk(ctx context.Context, size int64) (string, error) {
	letters := g.diskLetters()
	letter := max(letters[len(letters)-1]+1, firstDisk)
	if letter > lastDisk {
		return "", fmt.Errorf("add a disk to %s: it has all that it can have", g.Name())
	}
	g.mu.Lock()
	err := g.makeDisk(letter, size)
	path := g.disks[letter]
	g.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("add a disk to %s: %w", g.Name(), err)
	}
	device := fmt.Sprintf("/dev/ubd%c", letter)
	if !g.Running() {
		return device, nil
	}
	if _, err := g.mconsole(ctx, fmt.Sprintf("config ubd%c=%s", letter, path)); err != nil {
		return "", fmt.Errorf("add %s to %s: %w", device, g.Name(), err)
	}
	out, code, err := g.Exec(ctx, fmt.Sprintf("for i in $(seq 50); do [ -b %s ] && exit 0; sleep .1; done; exit 1", device))
	if err == nil && code != 0 {
		err = errors.New("the device did not appear: " + out)
	}
	return device, err
}

// mconsole sends a command to the management console of the guest's kernel.
func (g *Guest) mconsole(ctx context.Context, command string) (string, error) {
	local := &net.UnixAddr{Name: filepath.Join(g.lab.paths.UML(g.Index), fmt.Sprintf("driver-%d", time.Now().UnixNano())), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", local)
	if err != nil {
		return "", err
	}
	defer func() { _, _ = conn.Close(), os.Remove(local.Name) }() // it was read to its end
	deadline, ok := ctx.Deadline()
	if !ok || time.Until(deadline) > 10*time.Second {
		deadline = time.Now().Add(10 * time.Second)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	request := make([]byte, 12+512)
	binary.NativeEndian.PutUint32(request, 0xCAFEBABE)
	binary.NativeEndian.PutUint32(request[4:], 2)
	binary.NativeEndian.PutUint32(request[8:], uint32(len(command)))
	copy(request[12:], command)
	remote := &net.UnixAddr{Name: filepath.Join(g.lab.paths.UML(g.Index), g.Name(), "mconsole"), Net: "unixgram"}
	if _, err := conn.WriteToUnix(request, remote); err != nil {
		return "", err
	}
	return readConsole(conn)
}

func readConsole(conn *net.UnixConn) (string, error) {
	var answer strings.Builder
	failed := false
	for {
		reply := make([]byte, 4096)
		n, err := conn.Read(reply)
		if err != nil {
			return answer.String(), err
		}
		if n < 12 {
			return answer.String(), errors.New("the management console answers something else")
		}
		length := min(int(binary.NativeEndian.Uint32(reply[8:])), n-12)
		failed = failed || binary.NativeEndian.Uint32(reply) != 0
		answer.WriteString(strings.TrimRight(string(reply[12:12+length]), "\x00"))
		if binary.NativeEndian.Uint32(reply[4:]) == 0 {
			break
		}
	}
	if failed {
		return "", fmt.Errorf("the management console refuses: %s", answer.String())
	}
	return answer.String(), nil
}
