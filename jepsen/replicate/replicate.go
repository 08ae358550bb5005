// Package replicate calls the replication service of CSI-Addons by the names of its methods: their requests have
// nearly the same fields, and tests make many calls alike.
package replicate

import (
	"context"
	"fmt"

	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Service is its full name, as paths of calls have it.
const Service = "replication.Controller"

// The methods.
const (
	Enable  = "EnableVolumeReplication"
	Disable = "DisableVolumeReplication"
	Promote = "PromoteVolume"
	Demote  = "DemoteVolume"
	Resync  = "ResyncVolume"
	Info    = "GetVolumeReplicationInfo"
)

// Methods are all of them.
var Methods = []string{Enable, Disable, Promote, Demote, Resync, Info}

// Request is what a request of any method may have. A method without one of the fields is called without it.
type Request struct {
	Volume, Group string                         // the source's id; both empty: there is no source
	Source        *replication.ReplicationSource // instead of both
	VolumeID      string                         // the deprecated field
	ID            string                         // replication_id
	Parameters    map[string]string
	Secrets       map[string]string
	Force         bool
}

// With is the request with one more parameter.
func (r Request) With(key, value string) Request {
	parameters := map[string]string{key: value}
	for k, v := range r.Parameters {
		if k != key {
			parameters[k] = v
		}
	}
	r.Parameters = parameters
	return r
}

// Answer is what an answer has: Ready of Resync, the message itself of Info.
type Answer struct {
	Ready bool
	Info  *replication.GetVolumeReplicationInfoResponse
}

// Call calls a method. It panics for one that does not exist.
func Call(ctx context.Context, conn grpc.ClientConnInterface, method string, r Request) (Answer, error) {
	d := replication.File_replication_replication_proto.Services().ByName("Controller").Methods().ByName(protoreflect.Name(method))
	req, res := made(d.Input()), made(d.Output())
	r.fill(req.ProtoReflect())
	if err := conn.Invoke(ctx, "/"+Service+"/"+method, req, res); err != nil {
		return Answer{}, err
	}
	a := Answer{}
	if info, ok := res.(*replication.GetVolumeReplicationInfoResponse); ok {
		a.Info = info
	}
	if resync, ok := res.(*replication.ResyncVolumeResponse); ok {
		a.Ready = resync.GetReady()
	}
	return a, nil
}

func made(d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(fmt.Sprintf("find %s: %v", d.FullName(), err)) // it comes with the file that describes it
	}
	return kind.New().Interface()
}

func (r Request) fill(req protoreflect.Message) {
	text := func(s string) (protoreflect.Value, bool) { return protoreflect.ValueOfString(s), s != "" }
	set := func(name protoreflect.Name, value protoreflect.Value, given bool) {
		if field := req.Descriptor().Fields().ByName(name); given && field != nil {
			req.Set(field, value)
		}
	}
	id, given := text(r.VolumeID)
	set("volume_id", id, given)
	id, given = text(r.ID)
	set("replication_id", id, given)
	set("force", protoreflect.ValueOfBool(r.Force), r.Force)
	if source := r.source(); source != nil {
		set("replication_source", protoreflect.ValueOfMessage(source.ProtoReflect()), true)
	}
	fillMap(req, "parameters", r.Parameters)
	fillMap(req, "secrets", r.Secrets)
}

func fillMap(req protoreflect.Message, name protoreflect.Name, values map[string]string) {
	field := req.Descriptor().Fields().ByName(name)
	if field == nil || len(values) == 0 {
		return
	}
	all := req.Mutable(field).Map()
	for k, v := range values {
		all.Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
	}
}

func (r Request) source() *replication.ReplicationSource {
	switch {
	case r.Source != nil:
		return r.Source
	case r.Volume != "":
		return VolumeSource(r.Volume)
	case r.Group != "":
		return GroupSource(r.Group)
	}
	return nil
}

// VolumeSource is a volume as a source.
func VolumeSource(id string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volume{
		Volume: &replication.ReplicationSource_VolumeSource{VolumeId: id}}}
}

// GroupSource is a volume group as a source.
func GroupSource(id string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volumegroup{
		Volumegroup: &replication.ReplicationSource_VolumeGroupSource{VolumeGroupId: id}}}
}
