package conformance

import (
	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// alphaClient calls volume groups with the messages that they had before they used those of CSI.
type alphaClient struct {
	k    *fixture
	file protoreflect.FileDescriptor
}

func (k *fixture) alpha() alphaClient {
	k.t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{"testdata"}}}
	files, err := compiler.Compile(k.ctx, "alpha.proto")
	require.NoError(k.t, err)
	return alphaClient{k: k, file: files[0]}
}

// call calls a method of c1 with the fields of a request, and answers the group of the response.
func (a alphaClient) call(method string, fields map[string]string) protoreflect.Message {
	a.k.t.Helper()
	req, res := a.message(method+"Request"), a.message(method+"Response")
	for name, value := range fields {
		req.Set(req.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfString(value))
	}
	conn := a.k.env.Conn(a.k.t, "c1")
	a.k.untilOK(func() error { return conn.Invoke(a.k.ctx, "/volumegroup.Controller/"+method, req, res) })
	require.Empty(a.k.t, res.GetUnknown())
	group := res.Get(res.Descriptor().Fields().ByName("volume_group")).Message()
	require.Empty(a.k.t, group.GetUnknown())
	return group
}

func (a alphaClient) message(name string) *dynamicpb.Message {
	d := a.file.Messages().ByName(protoreflect.Name(name))
	require.NotNil(a.k.t, d, name)
	return dynamicpb.NewMessage(d)
}

// alphaField is a field of a message by its name.
func alphaField(m protoreflect.Message, name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}
