package place

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Sweep removes all that a lab owns but its lock: processes, network and directory.
// It is for the holder of the lock. Asked again, it finds nothing.
func (p Paths) Sweep() error {
	killed := Kill(p.Dir())
	network := p.sweepNetwork()
	return errors.Join(killed, network, os.RemoveAll(p.Dir()))
}

// Devices are the lab's bridges and taps that exist.
func (p Paths) Devices() []string {
	entries, _ := os.ReadDir("/sys/class/net") // always there
	var names []string
	for _, e := range entries {
		if p.isOwn(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func (p Paths) sweepNetwork() error {
	var failed []error
	for _, device := range p.Devices() {
		failed = append(failed, command("ip", "link", "del", device))
	}
	if p.HasTable() {
		failed = append(failed, command("nft", "delete", "table", "bridge", p.Table()))
	}
	return errors.Join(failed...)
}

// HasTable reports whether the lab's nftables table exists.
func (p Paths) HasTable() bool {
	out, err := exec.Command("nft", "list", "tables", "bridge").Output()
	return err == nil && strings.Contains(string(out)+"\n", " "+p.Table()+"\n")
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
