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
	fsTypeKey    = "fsType"             // ext4 (the default) or xfs
	replicasKey  = "replicas"           // 1 (the default) or 2, on as many hosts
	protocolKey  = "protocol"           // C (the default) or A, of a volume with 2 replicas
	sitesKey     = "sites"              // "A,B": 2 replicas, one at each
	encryptedKey = "encrypted"          // true or false (the default): by LUKS2, with a passphrase in the secrets of NodeStageVolume
	discardsKey  = "encryptionDiscards" // true or false (the default), of an encrypted volume: discards reach the pool, which shows what is in use
	coFSTypeKey  = csiconv.COPrefix + "fstype"
	// volumeGroup is the id or the name of a group at the endpoint's site that the volume joins.
	volumeGroupKey = csiconv.VolumeGroupKey
)

// parameterKeys are all that a StorageClass can say; mutableKeys are all that a
// VolumeAttributesClass can.
var (
	parameterKeys = []string{fsTypeKey, replicasKey, protocolKey, csiconv.SiteKey, sitesKey, volumeGroupKey, encryptedKey, discardsKey, iopsKey, bandwidthKey}
	mutableKeys   = []string{iopsKey, bandwidthKey}
)

// parameters are CreateVolume's, parsed.
type parameters struct {
	fsType   string
	replicas uint32
	// protocol is set for a volume with more than one replica, and only there.
	protocol fsmpb.Protocol
	// sites are two that have a replica each; none: both replicas are at one site.
	sites       []string
	volumeGroup string
	limits      limitParameters
	// encrypted and discards are not in the fingerprint where they are false, which is what a class without them means.
	encrypted, discards bool
	// hasSource: the volume is made from a source, which decides the filesystem of
	// capabilities that leave it open.
	hasSource bool
	// fingerprint is equal for requests with equal parameters. The limits are not in it:
	// they are compared by themselves.
	fingerprint string
}

// parseParameters refuses keys and values that it does not know, and calls for another site.
func parseParameters(site string, given map[string]string) (parameters, error) {
	p := parameters{replicas: 1}
	if err := csiconv.CheckSite(site, given); err != nil {
		return p, err
	}
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
		if !strings.HasPrefix(key, csiconv.COPrefix) && key != csiconv.SiteKey && value != "" && !isOff(key, value) {
			fingerprinted = append(fingerprinted, key, value)
		}
	}
	p.fingerprint = csiconv.Fingerprint(fingerprinted...)
	if p.discards && !p.encrypted {
		return p, fsm.Reject(fsm.Invalid, "parameter %s=true is for encrypted volumes: %s=true is missing", discardsKey, encryptedKey)
	}
	return p, p.checkReplication(given)
}

// isOff reports whether the parameter is a switch that is left as it is without it.
func isOff(key, value string) bool {
	return value == "false" && (key == encryptedKey || key == discardsKey)
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
	case value == "" && (key == fsTypeKey || key == coFSTypeKey || key == replicasKey || key == protocolKey || key == sitesKey || key == encryptedKey || key == discardsKey), key == csiconv.SiteKey:
		return nil // the zero value is not given; the site was compared
	case key == fsTypeKey || key == coFSTypeKey:
		return p.parseFSType(value)
	case key == replicasKey:
		return p.parseReplicas(value)
	case key == protocolKey:
		return p.parseProtocol(value)
	case key == sitesKey:
		return p.parseSites(value)
	case key == encryptedKey:
		return parseSwitch(&p.encrypted, key, value)
	case key == discardsKey:
		return parseSwitch(&p.discards, key, value)
	case key == volumeGroupKey:
		p.volumeGroup = value
		return nil
	case strings.HasPrefix(key, csiconv.COPrefix):
		return nil
	}
	return fsm.Reject(fsm.Invalid, "parameter %q is not known: there are %s", csiconv.Message(key), strings.Join(parameterKeys, ", "))
}

func parseSwitch(on *bool, key, value string) error {
	if value != "true" && value != "false" {
		return fsm.Reject(fsm.Invalid, "parameter %s=%q is neither true nor false", key, csiconv.Message(value))
	}
	*on = value == "true"
	return nil
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
