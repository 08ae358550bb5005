package replication

import (
	spec "github.com/csi-addons/spec/lib/go/replication"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// request is what all requests have.
type request interface {
	GetVolumeId() string
	GetReplicationSource() *spec.ReplicationSource
	GetReplicationId() string
}

// call is what a request asks to be done to what.
type call struct {
	action        string // for people
	source        *fsmpb.ReplicationSource
	replicationID string
	parameters    parameters
}

// name is the source, for people.
func (c *call) name() string {
	if id := c.source.GetVolumeGroupId(); id != "" {
		return "volume group " + id
	}
	return "volume " + c.source.GetVolumeId()
}

// newCall reads what all requests have. The class's parameters come with most of them, and are checked with each.
func (s *Server) newCall(action string, req request, given map[string]string) (*call, error) {
	source, err := readSource(req)
	if err != nil {
		return nil, err
	}
	p, err := parseParameters(s.client.Site(), given)
	if err != nil {
		return nil, err
	}
	if err := checkID(source); err != nil {
		return nil, err
	}
	return &call{action: action, source: source, replicationID: req.GetReplicationId(), parameters: p}, nil
}

// readSource reads the source: of the deprecated field, or of its successor, or of both where they agree.
func readSource(req request) (*fsmpb.ReplicationSource, error) {
	source := &fsmpb.ReplicationSource{VolumeId: req.GetVolumeId()}
	if req.GetReplicationSource() != nil {
		switch of := req.GetReplicationSource().GetType().(type) {
		case *spec.ReplicationSource_Volume:
			source.VolumeId = of.Volume.GetVolumeId()
		case *spec.ReplicationSource_Volumegroup:
			source = &fsmpb.ReplicationSource{VolumeGroupId: of.Volumegroup.GetVolumeGroupId()}
		default:
			return nil, fsm.Reject(fsm.Invalid, "replication_source names neither a volume nor a volume group")
		}
	}
	switch {
	case source.GetVolumeId() == "" && source.GetVolumeGroupId() == "":
		return nil, fsm.Reject(fsm.Invalid, "the id of the volume or of the volume group is required in replication_source")
	case req.GetVolumeId() != "" && req.GetVolumeId() != source.GetVolumeId():
		return nil, fsm.Reject(fsm.Invalid, "volume_id and replication_source name different things")
	}
	return source, nil
}

// checkID is fsm.NotFound for an id of another form than ours.
func checkID(source *fsmpb.ReplicationSource) error {
	if id := source.GetVolumeGroupId(); id != "" {
		if !fsm.VolumeGroupID(id).Valid() {
			return fsm.Reject(fsm.NotFound, "volume group %q is not known", csiconv.Message(id))
		}
		return nil
	}
	if id := fsm.VolumeID(source.GetVolumeId()); !id.Valid() {
		return fsm.UnknownVolume(id)
	}
	return nil
}
