// Package token keeps calls of CSI-Addons out that do not carry the token of a file: whoever reaches
// the socket may call CSI, but what fences hosts and deletes groups can be kept to those who know it.
package token

import (
	"context"
	"crypto/subtle"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Key is the token's key in a request's secrets.
const Key = "holdfastToken"

// secretsField is in every request of CSI-Addons but those of Identity, which read nothing but what
// the process is.
const secretsField = "secrets"

// Read reads the token of a file, without the white space around it.
func Read(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token of CSI-Addons: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", fmt.Errorf("the token of CSI-Addons in %s is empty", path)
	}
	return text, nil
}

// Require answers UNAUTHENTICATED to calls of CSI-Addons whose secrets have not the file's token. The
// file is read at each call, so that the token can be replaced.
func Require(path string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if secrets, needed := secretsOf(req, info); needed {
			want, err := Read(path)
			if err != nil {
				return nil, fsm.Reject(fsm.Unreachable, "the token cannot be checked: %v", err)
			}
			if subtle.ConstantTimeCompare([]byte(secrets.Get(protoreflect.ValueOfString(Key).MapKey()).String()), []byte(want)) != 1 {
				return nil, fsm.Reject(fsm.Unauthenticated, "the secret %s is missing or wrong", Key)
			}
		}
		return next(ctx, req)
	}
}

// secretsOf is the secrets of a request of CSI-Addons that must have the token. CSI's own services have
// packages that begin with csi.
func secretsOf(req any, info *grpc.UnaryServerInfo) (protoreflect.Map, bool) {
	msg, ok := req.(proto.Message)
	if !ok || strings.HasPrefix(info.FullMethod, "/csi.") {
		return nil, false
	}
	field := msg.ProtoReflect().Descriptor().Fields().ByName(secretsField)
	if field == nil || !field.IsMap() {
		return nil, false
	}
	return msg.ProtoReflect().Get(field).Map(), true
}
