package controller

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// parseReplicas reads on how many hosts the volume is kept.
func (p *parameters) parseReplicas(value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	switch {
	case err != nil || n == 0 || value[0] == '0':
		return fsm.Reject(fsm.Invalid, "parameter %s=%q is no number of replicas: a volume has 1 or %d", replicasKey, csiconv.Message(value), fsm.MaxReplicas)
	case n > fsm.MaxReplicas:
		return fsm.Reject(fsm.Invalid, "parameter %s=%d is not served: DRBD 8.4 holds two replicas", replicasKey, n)
	}
	p.replicas = uint32(n)
	return nil
}

// parseProtocol reads when a write is acknowledged: C, when both disks have it; A, when
// the local disk has it, so that a takeover loses writes (S11).
func (p *parameters) parseProtocol(value string) error {
	switch value {
	case "A":
		p.protocol = fsmpb.Protocol_PROTOCOL_A
	case "C":
		p.protocol = fsmpb.Protocol_PROTOCOL_C
	default:
		return fsm.Reject(fsm.Invalid, "parameter %s=%q is not served, only C and A", protocolKey, csiconv.Message(value))
	}
	return nil
}

// parseSites reads at which two sites the replicas are to be.
func (p *parameters) parseSites(value string) error {
	p.sites = strings.Split(value, ",")
	for i, name := range p.sites {
		p.sites[i] = strings.TrimSpace(name)
		if rej := fsm.CheckSite(p.sites[i]); rej != nil {
			return fsm.Reject(fsm.Invalid, "parameter %s=%q: %s", sitesKey, csiconv.Message(value), rej.Message)
		}
	}
	if len(p.sites) != fsm.MaxReplicas || p.sites[0] == p.sites[1] {
		return fsm.Reject(fsm.Invalid, "parameter %s=%q does not name two sites", sitesKey, csiconv.Message(value))
	}
	slices.Sort(p.sites)
	return nil
}

func (p *parameters) sitesOf() (sites []fsm.Site) {
	for _, name := range p.sites {
		sites = append(sites, fsm.SiteFrom(name))
	}
	slices.Sort(sites)
	return sites
}

// checkReplication checks the parameters against each other.
func (p *parameters) checkReplication(given map[string]string) error {
	if len(p.sites) > 0 && given[replicasKey] == "" {
		p.replicas = fsm.MaxReplicas // said by the sites
	}
	switch {
	case len(p.sites) > 0 && p.replicas != fsm.MaxReplicas:
		return fsm.Reject(fsm.Invalid, "parameter %s is of volumes with %d replicas", sitesKey, fsm.MaxReplicas)
	case p.replicas == 1 && p.protocol != fsmpb.Protocol_PROTOCOL_UNKNOWN:
		return fsm.Reject(fsm.Invalid, "parameter %s is of volumes with 2 replicas, and this one has 1", protocolKey)
	case p.replicas > 1 && p.protocol == fsmpb.Protocol_PROTOCOL_UNKNOWN:
		p.protocol = fsmpb.Protocol_PROTOCOL_C
	}
	return nil
}
