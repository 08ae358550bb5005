package csiconv

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// COPrefix is that of keys that Kubernetes' sidecars add: names of claims and references
// to secrets. They are tolerated, and are no part of the volume.
const COPrefix = "csi.storage.k8s.io/"

// The keys under which sidecars send what Kubernetes calls a volume.
const (
	claimNameKey      = COPrefix + "pvc/name"
	claimNamespaceKey = COPrefix + "pvc/namespace"
	volumeNameKey     = COPrefix + "pv/name"
)

// maxClaimName is the longest name that is kept; Kubernetes' have up to 253 bytes.
const maxClaimName = 256

// Claim is what the sidecars sent of the volume's names, nil when they sent nothing.
func Claim(parameters ...map[string]string) *fsmpb.Claim {
	c := &fsmpb.Claim{}
	for _, given := range parameters {
		c.Name = cmp.Or(fsm.Truncate(given[claimNameKey], maxClaimName), c.GetName())
		c.Namespace = cmp.Or(fsm.Truncate(given[claimNamespaceKey], maxClaimName), c.GetNamespace())
		c.Volume = cmp.Or(fsm.Truncate(given[volumeNameKey], maxClaimName), c.GetVolume())
	}
	if c.GetName() == "" && c.GetNamespace() == "" && c.GetVolume() == "" {
		return nil
	}
	return c
}

// SiteKey is the parameter that names the site whose endpoint a call is meant for.
const SiteKey = "site"

// VolumeGroupKey is the parameter that names a volume group, by id or name.
const VolumeGroupKey = "volumeGroup"

// CheckSite refuses a call that is meant for another site than that of the endpoint (S34).
func CheckSite(site string, given map[string]string) error {
	if named, ok := given[SiteKey]; ok && named != site {
		return fsm.Reject(fsm.Invalid, "the parameter %s is %q, and this endpoint acts for site %q: nothing was done", SiteKey, Message(named), site)
	}
	return nil
}

// NoParameters refuses every parameter but the site, those that are known and those that sidecars add.
func NoParameters(site string, given map[string]string, known ...string) error {
	known = append([]string{SiteKey}, known...)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, key) && !strings.HasPrefix(key, COPrefix) {
			return fsm.Reject(fsm.Invalid, "parameter %q is not known: there is only %s", Message(key), strings.Join(known, ", "))
		}
	}
	return CheckSite(site, given)
}
