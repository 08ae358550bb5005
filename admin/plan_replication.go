package admin

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The verbs of replication between two sites. They propose the commands that CSI-Addons' calls propose, for a site.
const (
	enableReplication  = "enable-replication"
	disableReplication = "disable-replication"
	promoteSite        = "promote"
	demoteSite         = "demote"
	resyncSite         = "resync"
)

// replicationVerbs are the planners of these verbs.
var replicationVerbs = map[string]func(*replicationPlan) error{
	enableReplication: (*replicationPlan).enable, disableReplication: (*replicationPlan).disable,
	promoteSite: (*replicationPlan).promote, demoteSite: (*replicationPlan).demote, resyncSite: (*replicationPlan).resync,
}

// ofReplication tells whether the verb's plan is about the relation of a volume or a group.
func ofReplication(verb string) bool {
	switch verb {
	case enableReplication, disableReplication, promoteSite, demoteSite, resyncSite:
		return true
	}
	return false
}

// replicationPlan is a plan about the relation of a volume, or of all volumes of a group. What it has was read before
// the first dry run.
type replicationPlan struct {
	*planner
	source   *fsmpb.ReplicationSource
	site     fsm.Site // the site that the command is of
	members  []*fsm.Volume
	relation *fsm.Relation // nil: it is not replicated
}

// checkRequest refuses a request for a plan that no state makes right.
func checkRequest(req *adminpb.PlanRequest) error {
	if verbs[req.GetVerb()] == nil {
		return status.Errorf(codes.InvalidArgument, "there is no plan for %q", req.GetVerb())
	}
	if req.GetVerb() == importDRBD {
		return checkReplicas(req)
	}
	if !ofReplication(req.GetVerb()) {
		return nil
	}
	invalid := func(format string, args ...any) error {
		return status.Errorf(codes.InvalidArgument, req.GetVerb()+": "+format, args...)
	}
	verb := req.GetVerb()
	switch {
	case (req.GetVolume() == "") == (req.GetGroup() == ""):
		return invalid("name either a volume or a volume group")
	case req.GetSite() == "":
		return invalid("name the site that it is about")
	case fsm.CheckSite(req.GetSite()) != nil:
		return invalid("%s", fsm.CheckSite(req.GetSite()).Message)
	case req.GetForce() && verb != promoteSite && verb != resyncSite:
		return invalid("there is no force for it")
	case verb == enableReplication && req.GetPeerSite() == "":
		return invalid("name the peer site")
	case protocols[req.GetProtocol()] == fsmpb.Protocol_PROTOCOL_UNKNOWN && req.GetProtocol() != "":
		return invalid("there is no protocol %q: choose A or C", req.GetProtocol())
	}
	return nil
}

var protocols = map[string]fsmpb.Protocol{"A": fsmpb.Protocol_PROTOCOL_A, "C": fsmpb.Protocol_PROTOCOL_C}

// planReplication makes the plan of a verb of replication.
func (p *planner) planReplication() error {
	x := &replicationPlan{planner: p, site: fsm.SiteFrom(p.req.GetSite())}
	if err := x.find(); err != nil {
		return err
	}
	if p.role = p.req.GetRole(); p.role == 0 {
		p.role = p.state.ReplicationRole(x.source)
	}
	return replicationVerbs[p.req.GetVerb()](x)
}

// find reads the volume or the group that the plan is about.
func (x *replicationPlan) find() error {
	if name := x.req.GetGroup(); name != "" {
		g := findVolumeGroup(x.state, name)
		if g == nil {
			return fsm.Reject(fsm.NotFound, "no volume group has the id or name %q", name)
		}
		x.source, x.relation = sourceOfGroup(g), g.Relation
		for _, id := range g.Members {
			if v, ok := x.state.Volume(id); ok {
				x.members = append(x.members, v)
			}
		}
		return nil
	}
	v := findVolume(x.state, x.req.GetVolume())
	if v == nil {
		return fsm.Reject(fsm.NotFound, "no volume has the id or name %q", x.req.GetVolume())
	}
	x.source, x.relation, x.members = &fsmpb.ReplicationSource{VolumeId: string(v.ID)}, v.Relation, []*fsm.Volume{v}
	return nil
}

func sourceOfGroup(g *fsm.VolumeGroup) *fsmpb.ReplicationSource {
	return &fsmpb.ReplicationSource{VolumeGroupId: string(g.ID)}
}

// other is the other site of the relation, as it is or is to be.
func (x *replicationPlan) other() fsm.Site {
	if x.relation == nil {
		return fsm.SiteFrom(x.req.GetPeerSite())
	}
	if x.relation.Sites[0] == x.site {
		return x.relation.Sites[1]
	}
	return x.relation.Sites[0]
}

func (x *replicationPlan) isPrimary() bool {
	return x.relation != nil && x.relation.Promoted && x.relation.Primary == x.site
}

// ousted is the record of the plan's site as one that lost the role, nil where it is not.
func (x *replicationPlan) ousted() *fsm.Ousted {
	if x.relation == nil {
		return nil
	}
	for i := range x.relation.Ousted {
		if x.relation.Ousted[i].Site == x.site {
			return &x.relation.Ousted[i]
		}
	}
	return nil
}

// command is the command that the plan's site proposes.
func (x *replicationPlan) command() *fsmpb.Command { return &fsmpb.Command{Site: x.req.GetSite()} }

// try adds the step of the command: to do where it changes something, else done. It returns the command's outcome, and
// the rejection that made the step blocked.
func (x *replicationPlan) try(t step, cmd *fsmpb.Command, changes bool) (*fsmpb.Outcome, *fsm.Rejection) {
	out, err := x.tryCommand(cmd)
	switch {
	case err != nil:
		t.state, t.detail = stepBlocked, err.Error()
	case changes:
		t.state, t.command = stepTodo, cmd
	default:
		t.state = stepDone
	}
	x.add(t)
	var rej *fsm.Rejection
	if errors.As(err, &rej) || err == nil {
		return out, rej
	}
	return nil, fsm.Reject(fsm.Busy, "%v", err) // a fault, which fails the plan
}

// now is a member after the dry run.
func (x *replicationPlan) now(v *fsm.Volume) *fsm.Volume {
	after, ok := x.state.Volume(v.ID)
	if !ok {
		return v
	}
	return after
}

func (x *replicationPlan) siteOf(node fsm.NodeID) fsm.Site {
	if n, ok := x.state.Node(node); ok {
		return fsm.SiteFrom(n.Site)
	}
	return ""
}

// replicaAt is the active replica of a volume at a site, nil where there is none.
func (x *replicationPlan) replicaAt(v *fsm.Volume, site fsm.Site) *fsm.Replica {
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if r.State != fsm.ReplicaGone && r.State != fsm.ReplicaLeaving && x.siteOf(r.Node) == site {
			return r
		}
	}
	return nil
}

// await adds what the verb waits for, or the refusal that waiting does not mend.
func (x *replicationPlan) await(action string, holds func(*fsmpb.ReplicationSource, fsm.Site) (bool, string, *fsm.Rejection)) {
	switch done, waitsFor, rej := holds(x.source, x.site); {
	case rej != nil:
		x.add(step{action: action, state: stepBlocked, detail: rej.Message})
	case !done:
		x.add(step{action: action, state: stepWaiting, detail: waitsFor})
	}
}

// ofWhat is the volume or the group that a plan of replication is about.
func ofWhat(req *adminpb.PlanRequest) string { return cmp.Or(req.GetGroup(), req.GetVolume()) }

func atSite(req *adminpb.PlanRequest) string {
	return fmt.Sprintf("%s at site %s", ofWhat(req), fsm.SiteFrom(req.GetSite()))
}
