package conformance

import (
	"slices"

	"github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// addonsFiles describe every service of CSI-Addons but Identity.
var addonsFiles = []protoreflect.FileDescriptor{
	encryptionkeyrotation.File_encryptionkeyrotation_encryptionkeyrotation_proto, fence.File_fence_fence_proto,
	reclaimspace.File_reclaimspace_reclaimspace_proto, replication.File_replication_replication_proto, volumegroup.File_volumegroup_volumegroup_proto,
}

func serviceCapability(t identity.Capability_Service_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: t}}}
}

func reclaimCapability(t identity.Capability_ReclaimSpace_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: &identity.Capability_ReclaimSpace{Type: t}}}
}

func groupCapability(t identity.Capability_VolumeGroup_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_VolumeGroup_{VolumeGroup: &identity.Capability_VolumeGroup{Type: t}}}
}

func fenceCapability(t identity.Capability_NetworkFence_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_NetworkFence_{NetworkFence: &identity.Capability_NetworkFence{Type: t}}}
}

var (
	replicationCapability = &identity.Capability{Type: &identity.Capability_VolumeReplication_{
		VolumeReplication: &identity.Capability_VolumeReplication{Type: identity.Capability_VolumeReplication_VOLUME_REPLICATION}}}
	rotationCapability = &identity.Capability{Type: &identity.Capability_EncryptionKeyRotation_{
		EncryptionKeyRotation: &identity.Capability_EncryptionKeyRotation{Type: identity.Capability_EncryptionKeyRotation_ENCRYPTIONKEYROTATION}}}
)

// addonsHas tells whether a process advertises a capability of CSI-Addons.
func addonsHas(want *identity.Capability) func(*fixture, *grpc.ClientConn) bool {
	return func(k *fixture, conn *grpc.ClientConn) bool {
		res, err := identity.NewIdentityClient(conn).GetCapabilities(k.ctx, &identity.GetCapabilitiesRequest{})
		require.NoError(k.t, err)
		return slices.ContainsFunc(res.GetCapabilities(), func(c *identity.Capability) bool { return proto.Equal(c, want) })
	}
}

// servedAddons are the methods of CSI-Addons that a process serves, such as "volumegroup.Controller/CreateVolumeGroup": an
// empty request of any other is UNIMPLEMENTED.
func (k *fixture) servedAddons(conn *grpc.ClientConn) map[string]bool {
	k.t.Helper()
	served := map[string]bool{}
	for _, file := range addonsFiles {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				_, err := k.callAddons(conn, string(s.FullName())+"/"+string(m.Name()), newMessage(k, m.Input()))
				served[string(s.FullName())+"/"+string(m.Name())] = status.Code(err) != codes.Unimplemented
			}
		}
	}
	return served
}

// callAddons calls a method by its name.
func (k *fixture) callAddons(conn *grpc.ClientConn, method string, req proto.Message) (proto.Message, error) {
	k.t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(methodName(method))
	require.NoError(k.t, err)
	res := newMessage(k, d.(protoreflect.MethodDescriptor).Output())
	return res, conn.Invoke(k.ctx, "/"+method, req, res)
}

func methodName(method string) protoreflect.FullName {
	i := slices.Index([]byte(method), '/')
	return protoreflect.FullName(method[:i] + "." + method[i+1:])
}

func newMessage(k *fixture, d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	require.NoError(k.t, err)
	return kind.New().Interface()
}

// addonsProcess is a process whose capabilities of CSI-Addons are compared with what it serves.
type addonsProcess struct {
	name           string
	conn           *grpc.ClientConn
	node, disabled bool
}

// addonsProcesses are those of the shared cluster and of the one with everything disabled.
func (k *fixture) addonsProcesses() (all []addonsProcess) {
	for _, id := range everyone {
		all = append(all, addonsProcess{name: id, conn: k.env.Conn(k.t, id), node: id[0] == 'n'})
	}
	for _, id := range []string{"c1", "n1"} {
		all = append(all, addonsProcess{name: id + " of the disabled", conn: k.disabledConn(id), node: id[0] == 'n', disabled: true})
	}
	return all
}

// advertisedIffServed makes a row of a capability: a process advertises it exactly where it serves each of these
// methods, and those are the processes that must.
func advertisedIffServed(c *identity.Capability, must func(p addonsProcess) bool, methods ...string) rowTest {
	return rowOf(func(k *fixture) {
		for _, p := range k.addonsProcesses() {
			advertised, served := addonsHas(c)(k, p.conn), k.servedAddons(p.conn)
			for _, method := range methods {
				require.Contains(k.t, served, method)
				require.Equal(k.t, advertised, served[method], "%s at %s", method, p.name)
			}
			require.Equal(k.t, must(p), advertised, p.name)
		}
	})
}

// advertisedIffAny is the same for the capability of a whole service, of controllers or of nodes: there, one
// method is enough, and elsewhere it is never advertised.
func advertisedIffAny(c *identity.Capability, node bool) rowTest {
	return rowOf(func(k *fixture) {
		for _, p := range k.addonsProcesses() {
			served := false
			for _, one := range k.servedAddons(p.conn) {
				served = served || one
			}
			require.Equal(k.t, served && p.node == node, addonsHas(c)(k, p.conn), p.name)
			require.True(k.t, served || p.disabled, "%s serves nothing", p.name)
		}
	})
}

func onControllers(p addonsProcess) bool { return !p.node && !p.disabled }
func onNodes(p addonsProcess) bool       { return p.node && !p.disabled }
