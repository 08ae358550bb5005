package replication

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The parameters of a VolumeReplicationClass, beside params.Site.
const (
	peerSiteKey = "peerSite"
	peerNodeKey = "peerNode"
	protocolKey = "protocol"
	keepKey     = "keep"
	togetherKey = "together"
	isolatedKey = "isolated"
	// schedules are for replication by snapshots: an orchestrator sends them to every driver, and they say nothing here.
	scheduleIntervalKey = "schedulingInterval"
	scheduleStartKey    = "schedulingStartTime"
)

// parameters are those of one call.
type parameters struct {
	peerSite, peerNode string
	protocol           fsmpb.Protocol // unknown: not said
	discardUnkept      bool
	separately         bool
	freezeIsolated     bool
}

// readers read the value of a parameter.
var readers = map[string]func(*parameters, string) error{
	peerSiteKey: func(p *parameters, value string) error {
		p.peerSite = value
		if rej := fsm.CheckSite(value); rej != nil {
			return fsm.Reject(fsm.Invalid, "parameter %s: %s", peerSiteKey, rej.Message)
		}
		return nil
	},
	peerNodeKey: func(p *parameters, value string) error {
		p.peerNode = value
		return choose(peerNodeKey, value, value != "")
	},
	protocolKey: func(p *parameters, value string) error {
		p.protocol = map[string]fsmpb.Protocol{"A": fsmpb.Protocol_PROTOCOL_A, "C": fsmpb.Protocol_PROTOCOL_C}[value]
		return choose(protocolKey, value, p.protocol != fsmpb.Protocol_PROTOCOL_UNKNOWN, "A", "C")
	},
	keepKey: func(p *parameters, value string) error {
		p.discardUnkept = value == "false"
		return choose(keepKey, value, p.discardUnkept || value == "true", "true", "false")
	},
	togetherKey: func(p *parameters, value string) error {
		p.separately = value == "false"
		return choose(togetherKey, value, p.separately || value == "true", "true", "false")
	},
	isolatedKey: func(p *parameters, value string) error {
		p.freezeIsolated = value == "freeze"
		return choose(isolatedKey, value, p.freezeIsolated, "freeze")
	},
	scheduleIntervalKey: func(*parameters, string) error { return nil },
	scheduleStartKey:    func(*parameters, string) error { return nil },
}

// choose refuses a value that is none of those that a parameter can have.
func choose(key, value string, ok bool, choices ...string) error {
	if ok {
		return nil
	}
	return fsm.Reject(fsm.Invalid, "parameter %s=%q is not served; it can be %q", key, csiconv.Message(value), choices)
}

// parseParameters reads the parameters of a call through a site's endpoint (S34).
func parseParameters(site string, given map[string]string) (p parameters, err error) {
	if err := params.Check(site, given, slices.Sorted(maps.Keys(readers))...); err != nil {
		return p, err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if read := readers[key]; read != nil {
			if err := read(&p, given[key]); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}
