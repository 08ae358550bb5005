package controller

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The parameters of CreateVolume.
const (
	fsTypeKey   = "fsType"   // ext4 (the default) or xfs
	replicasKey = "replicas" // 1 (the default) or 2, on as many hosts
	protocolKey = "protocol" // C (the default) or A, of a volume with 2 replicas
	coFSTypeKey = csiconv.COPrefix + "fstype"
)

// parameterKeys are all that a StorageClass can say; mutableKeys are all that a
// VolumeAttributesClass can.
var (
	parameterKeys = []string{fsTypeKey, replicasKey, protocolKey, iopsKey, bandwidthKey}
	mutableKeys   = []string{iopsKey, bandwidthKey}
)

// parameters are CreateVolume's, parsed.
type parameters struct {
	fsType   string
	replicas uint32
	// protocol is set for a volume with more than one replica, and only there.
	protocol fsmpb.Protocol
	limits   limitParameters
	// hasSource: the volume is made from a source, which decides the filesystem of
	// capabilities that leave it open.
	hasSource bool
	// fingerprint is equal for requests with equal parameters. The limits are not in it:
	// they are compared by themselves.
	fingerprint string
}

// parseParameters refuses keys and values that it does not know.
func parseParameters(given map[string]string) (parameters, error) {
	p := parameters{replicas: 1}
	var fingerprinted []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		if isLimit, err := p.parseLimit(key, value); isLimit || err != nil {
			if err != nil {
				return p, err
			}
			continue
		}
		if err := p.parse(key, value); err != nil {
			return p, err
		}
		if key == coFSTypeKey {
			key = fsTypeKey
		}
		if !strings.HasPrefix(key, csiconv.COPrefix) && value != "" {
			fingerprinted = append(fingerprinted, key, value)
		}
	}
	p.fingerprint = csiconv.Fingerprint(fingerprinted...)
	return p, p.checkReplication()
}

// parseLimit reads a parameter that is mutable afterwards; the zero value means not
// given.
func (p *parameters) parseLimit(key, value string) (bool, error) {
	if value == "" && (key == iopsKey || key == bandwidthKey) {
		return true, nil
	}
	return p.limits.parse(key, value)
}

func (p *parameters) parse(key, value string) error {
	switch {
	case value == "" && (key == fsTypeKey || key == coFSTypeKey || key == replicasKey || key == protocolKey):
		return nil // the zero value is not given
	case key == fsTypeKey || key == coFSTypeKey:
		return p.parseFSType(value)
	case key == replicasKey:
		return p.parseReplicas(value)
	case key == protocolKey:
		return p.parseProtocol(value)
	case strings.HasPrefix(key, csiconv.COPrefix):
		return nil
	}
	return fsm.Reject(fsm.Invalid, "parameter %q is not known: there are %s", csiconv.Message(key), strings.Join(parameterKeys, ", "))
}

func (p *parameters) parseFSType(value string) error {
	switch {
	case !fsm.KnownFSType(value):
		return fsm.Reject(fsm.Invalid, "parameter fsType=%q is not served, only ext4 and xfs", csiconv.Message(value))
	case p.fsType != "" && p.fsType != value:
		return fsm.Reject(fsm.Invalid, "parameters %s and %s contradict each other", fsTypeKey, coFSTypeKey)
	}
	p.fsType = value
	return nil
}

// withFSType gives a capability its filesystem.
func (p *parameters) withFSType(c fsm.Capability) (fsm.Capability, error) {
	switch {
	case c.Block, c.FSType == "" && p.fsType == "" && p.hasSource:
	case c.FSType == "" && p.fsType == "":
		c.FSType = fsm.DefaultFSType
	case c.FSType == "":
		c.FSType = p.fsType
	case p.fsType != "" && p.fsType != c.FSType:
		return c, fsm.Reject(fsm.Invalid, "fs_type %s contradicts parameter %s=%s", c.FSType, fsTypeKey, p.fsType)
	}
	return c, nil
}
