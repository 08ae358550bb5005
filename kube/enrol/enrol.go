// Package enrol has the API server of Kubernetes attest of which node a service account's token is.
package enrol

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/raftnode/enroll"
)

// Audience is that of tokens that are good for enrolment, and for nothing else.
const Audience = "holdfast-enroll"

// What the API server says of a token that is bound to a pod, in the extra fields of its user.
const (
	nodeName = "authentication.kubernetes.io/node-name"
	podName  = "authentication.kubernetes.io/pod-name"
	podUID   = "authentication.kubernetes.io/pod-uid"
)

// reviewTimeout bounds one question.
const reviewTimeout = 10 * time.Second

// Reviewer asks the API server. It implements enroll.Attestor.
type Reviewer struct {
	Client kubernetes.Interface
	// Namespace and Account are the service account of the nodes' pods.
	Namespace, Account string
}

// ParseAccount reads a service account as NAMESPACE/NAME.
func ParseAccount(text string) (namespace, account string, err error) {
	namespace, account, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || account == "" || strings.ContainsAny(account, "/:") || strings.Contains(namespace, ":") {
		return "", "", fmt.Errorf("%q is no service account as NAMESPACE/NAME", text)
	}
	return namespace, account, nil
}

// Attest implements enroll.Attestor. Whether the token is good, and not too old, and its pod and its node exist, is the API
// server's decision, and so is the node's name: nothing that the token says of itself decides (S168).
func (r *Reviewer) Attest(ctx context.Context, token string) (*enroll.Attested, error) {
	if token == "" {
		return nil, fmt.Errorf("%w: there is none", enroll.ErrNotAttested)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("TokenReview: %s", strings.ReplaceAll(err.Error(), token, "(token)"))
	}
	if err := r.check(&review.Status); err != nil {
		return nil, fmt.Errorf("%w: %w", enroll.ErrNotAttested, err)
	}
	user := &review.Status.User
	return &enroll.Attested{
		Node:    user.Extra[nodeName][0],
		By:      fmt.Sprintf("the API server, of pod %s/%s (%s)", r.Namespace, user.Extra[podName][0], user.Extra[podUID][0]),
		Expires: expiryOf(token),
	}, nil
}

// check is nil where the API server says that the token is of a pod of the nodes' service account, on one node. Its text on a
// token that is not good is not passed on: it is about a secret.
func (r *Reviewer) check(status *authenticationv1.TokenReviewStatus) error {
	want := "system:serviceaccount:" + r.Namespace + ":" + r.Account
	switch {
	case !status.Authenticated:
		return fmt.Errorf("the API server does not accept it for the audience %s: it is of another audience or cluster, it expired, or its pod or node is gone", Audience)
	case !slices.Contains(status.Audiences, Audience):
		return fmt.Errorf("the API server did not say that it is for the audience %s", Audience)
	case status.User.Username != want:
		return fmt.Errorf("it is of %s, and nodes are %s", status.User.Username, want)
	}
	for _, key := range []string{podName, podUID, nodeName} {
		if of := status.User.Extra[key]; len(of) != 1 || of[0] == "" {
			return fmt.Errorf("the API server does not say its %s: it is not bound to a pod that runs on a node", key)
		}
	}
	return nil
}

// expiryOf is when a token ends that the API server has accepted, as it says itself; at once where it does not say.
func expiryOf(token string) time.Time {
	var claims struct {
		Expires int64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}
