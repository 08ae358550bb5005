package lvm

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// sectorSize is the unit of the device mapper's tables.
const sectorSize = 512

// dmReader reads the device mapper's state. Changes go through lvm and dmsetup, which synchronise
// with udev.
type dmReader interface {
	// device returns a device by its name; nil when it does not exist.
	device(name string) (*dmDevice, error)
	// status returns the status of the device's first target; empty when the device does not
	// exist.
	status(name string) (target, params string, err error)
}

// dmDevice is what the kernel reports of one mapped device.
type dmDevice struct {
	major, minor uint32
	open         int32
	readOnly     bool
	suspended    bool
	uuid         string
}

// path is the device's node, which the kernel creates in devtmpfs.
func (d *dmDevice) path() string { return fmt.Sprintf("/dev/dm-%d", d.minor) }

func (d *dmDevice) number() uint64 { return unix.Mkdev(d.major, d.minor) }

// deviceBytes returns the device's size in bytes, as the kernel reports it.
func deviceBytes(d *dmDevice) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/size", d.major, d.minor))
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", d.path(), err)
	}
	n := numberParser{}
	sectors := n.parse(strings.TrimSpace(string(text)))
	return sectors * sectorSize, n.err
}
