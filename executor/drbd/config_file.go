package drbd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	filePrefix = "holdfast-"
	fileSuffix = ".res"
)

func (r *Replicator) resourceFile(id fsm.VolumeID) string {
	return filepath.Join(r.config.Dir, filePrefix+string(id)+fileSuffix)
}

// Configure writes the resource's file atomically and readable by root only, since it holds the
// secret.
func (r *Replicator) Configure(_ context.Context, res executor.ResourceConfig) error {
	text, err := r.render(res)
	if err != nil {
		return err
	}
	path := r.resourceFile(res.Volume)
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, text) {
		return os.Chmod(path, 0o600)
	}
	if err := os.MkdirAll(r.config.Dir, 0o755); err != nil {
		return fmt.Errorf("configure %s: %w", res.Volume, err)
	}
	if err := writeFile(path, text, 0o600); err != nil {
		return fmt.Errorf("configure %s: %w", res.Volume, err)
	}
	return nil
}

// RemoveConfig removes the resource's file, and DRBD's record of where the metadata of its minor
// last were: the tools would look for them there on the next device with that minor.
func (r *Replicator) RemoveConfig(ctx context.Context, id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "forget: %q is no volume", id)
	}
	minor, configured, err := r.configuredMinor(id)
	if err != nil {
		return err
	}
	_, found, err := r.kernelMinor(ctx, id)
	switch {
	case err != nil:
		return err
	case found:
		return fsm.Reject(fsm.Busy, "forget %s: the kernel has it", id)
	case !configured:
		return nil
	}
	if err := removeFile(filepath.Join(r.config.State, "drbd-minor-"+minorString(minor)+".lkbd")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeFile(r.resourceFile(id))
}

// resource is the data of the configuration file's template.
type resource struct {
	executor.ResourceConfig
	host, peer       string // names of the two sections; the tools choose the local one by `uname -n`
	local, remote    string // "ipv4 10.0.0.1:7800"
	handler          string
	protocol         string
	options          Options
	nodeID, peerNode int // DRBD 9 only
}

func (r *Replicator) render(res executor.ResourceConfig) ([]byte, error) {
	filled, err := r.newResource(res)
	if err != nil {
		return nil, err
	}
	if version, _ := r.Version(); major(version) >= 9 {
		return filled.render9(), nil
	}
	return filled.render84(), nil
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._+@:=-]+$`)
	hexSecret = regexp.MustCompile(`^[0-9a-f]{16,63}$`)
)

// newResource validates everything that goes into the file: a value that the parser reads in
// another way could change another option, or another volume's resource.
func (r *Replicator) newResource(res executor.ResourceConfig) (resource, error) {
	host, err := r.config.Hostname()
	if err != nil {
		return resource{}, fmt.Errorf("configure %s: %w", res.Volume, err)
	}
	f := resource{ResourceConfig: res, host: host, peer: peerName(host, res.PeerNode), handler: r.handler(), options: r.config.Options}
	if res.Node > res.PeerNode {
		f.nodeID = 1
	}
	f.peerNode = 1 - f.nodeID
	switch {
	case !res.Volume.Valid():
		return f, fsm.Reject(fsm.Invalid, "configure %q: it is no volume", res.Volume)
	case !plainName.MatchString(host):
		return f, fsm.Reject(fsm.Precondition, "configure %s: this host's name %q cannot be written into DRBD's file", res.Volume, host)
	case !plainPath.MatchString(res.BackingPath):
		return f, fsm.Reject(fsm.Invalid, "configure %s: the device %q below cannot be written into DRBD's file", res.Volume, res.BackingPath)
	case !hexSecret.MatchString(res.Secret):
		return f, fsm.Reject(fsm.Invalid, "configure %s: it has no secret", res.Volume)
	case res.Minor == 0 || res.Minor >= 1<<20 || res.Port == 0 || res.Port > 65535:
		return f, fsm.Reject(fsm.Invalid, "configure %s: minor %d, port %d", res.Volume, res.Minor, res.Port)
	}
	if f.protocol, err = protocolName(res); err != nil {
		return f, err
	}
	if f.local, err = endpoint(res, res.Address); err != nil {
		return f, err
	}
	f.remote, err = endpoint(res, res.PeerAddress)
	return f, err
}

// peerName returns a section name for the peer that differs from this host's own.
func peerName(host string, peer fsm.NodeID) string {
	if name := string(peer); plainName.MatchString(name) && name != host {
		return name
	}
	if host == "peer" {
		return "other"
	}
	return "peer"
}

func protocolName(res executor.ResourceConfig) (string, error) {
	switch res.Protocol {
	case fsmpb.Protocol_PROTOCOL_A:
		return "A", nil
	case fsmpb.Protocol_PROTOCOL_C:
		return "C", nil
	default:
		return "", fsm.Reject(fsm.Invalid, "configure %s: protocol %s", res.Volume, res.Protocol)
	}
}

func endpoint(res executor.ResourceConfig, address string) (string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" {
		return "", fsm.Reject(fsm.Invalid, "configure %s: %q is no address", res.Volume, address)
	}
	ip = ip.Unmap()
	family := "ipv4"
	if ip.Is6() {
		family = "ipv6"
	}
	return family + " " + netip.AddrPortFrom(ip, uint16(res.Port)).String(), nil
}

// handler is the command that the kernel's helper runs as the fence-peer handler (S13).
func (r *Replicator) handler() string {
	command := r.config.Handler + " fence-peer"
	if r.config.Socket != "" {
		command += " --socket " + r.config.Socket
	}
	return command
}

var (
	minorInFile   = regexp.MustCompile(`(?m)^\s*device minor (\d+);$`)
	backingInFile = regexp.MustCompile(`(?m)^\s*disk "([^"]+)";$`)
)

func (r *Replicator) readResourceFile(id fsm.VolumeID) (string, bool, error) {
	text, err := os.ReadFile(r.resourceFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the configuration of %s: %w", id, err)
	}
	return string(text), true, nil
}

// configuredMinor returns the minor that the resource's file names; false without a file.
func (r *Replicator) configuredMinor(id fsm.VolumeID) (uint32, bool, error) {
	text, found, err := r.readResourceFile(id)
	if err != nil || !found {
		return 0, false, err
	}
	m := minorInFile.FindStringSubmatch(text)
	if m == nil {
		return 0, false, fmt.Errorf("the configuration of %s names no minor", id)
	}
	minor, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil {
		return 0, false, fmt.Errorf("the configuration of %s: %w", id, err)
	}
	return uint32(minor), true, nil
}

func (r *Replicator) configuredBacking(id fsm.VolumeID) (string, error) {
	text, _, err := r.readResourceFile(id)
	if err != nil {
		return "", err
	}
	m := backingInFile.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("the configuration of %s names no device below", id)
	}
	return m[1], nil
}

// configuredVolumes returns the volumes that have a file, by minor.
func (r *Replicator) configuredVolumes() (map[uint32]fsm.VolumeID, error) {
	entries, err := os.ReadDir(r.config.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the configured volumes: %w", err)
	}
	volumes := map[uint32]fsm.VolumeID{}
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), filePrefix)
		name, resource := strings.CutSuffix(name, fileSuffix)
		id := fsm.VolumeID(name)
		if !ours || !resource || !id.Valid() {
			continue
		}
		if minor, found, err := r.configuredMinor(id); err != nil {
			return nil, err
		} else if found {
			volumes[minor] = id
		}
	}
	return volumes, nil
}
