package controller_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// requestFuzzer fills messages with values that are often nearly right.
type requestFuzzer struct {
	*rand.Rand
	knownIDs []string
}

var oddStrings = []string{"", "v", "fake", "../..", "/abs/path", "rel", "\x00", "ext4", "xfs", "n1", "1", "1.1", "holdfast.storage/epoch", "topology.holdfast.storage/node", "a b", "🪨", string(make([]byte, 300))}

func (s *requestFuzzer) fill(msg protoreflect.Message, depth int) {
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if s.IntN(4) == 0 || depth > 5 {
			continue
		}
		switch {
		case field.IsMap():
			for range s.IntN(3) {
				msg.Mutable(field).Map().Set(protoreflect.ValueOfString(s.text()).MapKey(), protoreflect.ValueOfString(s.text()))
			}
		case field.IsList():
			for range s.IntN(3) {
				msg.Mutable(field).List().Append(s.value(field, msg.NewField(field).List().NewElement(), depth))
			}
		default:
			msg.Set(field, s.value(field, msg.NewField(field), depth))
		}
	}
}

func (s *requestFuzzer) text() string {
	all := append(oddStrings, s.knownIDs...)
	return all[s.IntN(len(all))]
}

func (s *requestFuzzer) value(field protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind:
		s.fill(empty.Message(), depth+1)
		return empty
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s.text())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(s.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(s.IntN(9)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(s.IntN(5) - 1))
	case protoreflect.Int64Kind:
		sizes := []int64{-1, 0, 1, 1 << 20, gib, 2 * gib, 1 << 62}
		return protoreflect.ValueOfInt64(sizes[s.IntN(len(sizes))])
	default:
		return empty
	}
}

// FuzzRequests: no request panics, and every failure is a canonical code with a
// message and nothing else. CSI-GEN-Error-01..04, CVE-2020-8569.
func FuzzRequests(f *testing.F) {
	w := newEnv(f)
	id := w.create(f, "v")
	epoch := w.publish(f, id, mount(writer, ""))
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		s := &requestFuzzer{Rand: rand.New(rand.NewPCG(seed, 0)), knownIDs: []string{id, epoch["holdfast.storage/epoch"]}}
		for range 20 {
			s.call(t, w.controllers, csi.Controller_ServiceDesc)
			s.call(t, w.controllers, csi.GroupController_ServiceDesc)
			s.call(t, w.nodes, csi.Node_ServiceDesc)
		}
	})
}

// TestRandomRequests is the fuzz test over a fixed number of requests.
func TestRandomRequests(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	epoch := w.publish(t, id, mount(writer, ""))
	s := &requestFuzzer{Rand: rand.New(rand.NewPCG(2026, 11)), knownIDs: []string{id, epoch["holdfast.storage/epoch"]}}
	seen := map[codes.Code]int{}
	for range 1500 {
		seen[s.call(t, w.controllers, csi.Controller_ServiceDesc)]++
		seen[s.call(t, w.controllers, csi.GroupController_ServiceDesc)]++
		seen[s.call(t, w.nodes, csi.Node_ServiceDesc)]++
	}
	require.Positive(t, seen[codes.OK])
	require.Positive(t, seen[codes.NotFound])
	require.Zero(t, seen[codes.Unknown])
}

func (s *requestFuzzer) call(t *testing.T, conn *grpc.ClientConn, service grpc.ServiceDesc) codes.Code {
	t.Helper()
	method := service.Methods[s.IntN(len(service.Methods))].MethodName
	req, resp := newMessage(t, method+"Request"), newMessage(t, method+"Response")
	s.fill(req.ProtoReflect(), 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := conn.Invoke(ctx, "/"+service.ServiceName+"/"+method, req, resp)
	if err != nil {
		require.NoError(t, wellFormed(err))
		require.NotContains(t, err.Error(), "by a bug", method)
	}
	return status.Code(err)
}

func newMessage(t *testing.T, name string) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("csi.v1." + name))
	require.NoError(t, err)
	return kind.New().Interface()
}
