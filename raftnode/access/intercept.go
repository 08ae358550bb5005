package access

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// rules are the roles of a table, by method and then by verb.
type rules map[string]map[string][]pki.Role

func rulesOf(table []Row) rules {
	r := rules{}
	for _, row := range table {
		if r[row.Method] == nil {
			r[row.Method] = map[string][]pki.Role{}
		}
		r[row.Method][row.Verb] = row.Roles
	}
	return r
}

// Interceptors let through only calls that Table allows, by the certificate that TLS verified; others get PERMISSION_DENIED,
// and without a certificate UNAUTHENTICATED. The verbs of a stream are not told apart: its rows have none.
func Interceptors() (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	return rulesOf(Table).interceptors()
}

func (r rules) interceptors() (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := r.check(ctx, info.FullMethod, req); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := r.check(s.Context(), info.FullMethod, nil); err != nil {
			return err
		}
		return next(srv, s)
	}
	return unary, stream
}

func (r rules) check(ctx context.Context, method string, req any) error {
	id, err := pki.Peer(ctx)
	if err != nil {
		return err
	}
	roles, what := r.rolesFor(method, req)
	switch {
	case slices.Contains(roles, id.Role):
		return nil
	case roles == nil:
		return status.Errorf(codes.PermissionDenied, "%s may not call %s: this build lets nobody", id.Actor(), what)
	}
	return status.Errorf(codes.PermissionDenied, "%s may not call %s: it is for the roles %s", id.Actor(), what, Names(roles))
}

// rolesFor returns who may call the method with this request, nil for nobody, and what the call is, for people.
func (r rules) rolesFor(method string, req any) (roles []pki.Role, what string) {
	if roles, alike := r[method][""]; alike {
		return roles, method
	}
	of, hasVerb := req.(interface{ GetVerb() string })
	if !hasVerb {
		return nil, method
	}
	return r[method][of.GetVerb()], method + " of " + of.GetVerb()
}

// Names lists roles, for people.
func Names(roles []pki.Role) string {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}
