#!/bin/sh
# binaries.sh CACHE [NAME...]
#
# Builds the programs of a real Kubernetes cluster from their Go modules into CACHE/bin, each once: what is there is kept. A
# name is a program's with its module's version, as kubelet-v1.37.2 (without names: all). Sources are unpacked in CACHE/src and
# removed when built. The whole takes about an hour on two cores, nearly all of it for the first of the two Kubernetes versions.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=$(mkdir -p "$1" && cd "$1" && pwd)
shift
GO=${GO:-go}
export CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=mod -buildvcs=false -trimpath" GOTOOLCHAIN=local
mkdir -p "$cache/bin" "$cache/src"

# name | module | version | package in it, or a folder beside this script | go build or test, or build here
programs() {
  for v in v1.37.2 v1.36.3; do
    for p in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy; do
      echo "$p k8s.io/kubernetes $v ./cmd/$p build"
    done
    echo "e2e.test k8s.io/kubernetes $v ./test/e2e test"
  done
  echo "etcd go.etcd.io/etcd/server/v3 v3.6.16 . build"
  echo "csi-provisioner github.com/kubernetes-csi/external-provisioner/v6 v6.4.0 ./cmd/csi-provisioner build"
  echo "csi-attacher github.com/kubernetes-csi/external-attacher/v4 v4.13.0 ./cmd/csi-attacher build"
  echo "csi-resizer github.com/kubernetes-csi/external-resizer/v2 v2.3.0 ./cmd/csi-resizer build"
  echo "csi-snapshotter github.com/kubernetes-csi/external-snapshotter/v8 v8.7.0 ./cmd/csi-snapshotter build"
  echo "snapshot-controller github.com/kubernetes-csi/external-snapshotter/v8 v8.7.0 ./cmd/snapshot-controller build"
  echo "helm helm.sh/helm/v3 v3.22.0 ./cmd/helm build"
  echo "helm helm.sh/helm/v4 v4.3.1 ./cmd/helm build"
  echo "coredns github.com/coredns/coredns v1.15.0 . build"
  echo "kube-router github.com/cloudnativelabs/kube-router/v2 v2.1.0 ./cmd/kube-router build"
  echo "ginkgo github.com/onsi/ginkgo/v2 v2.32.0 ./ginkgo build"
  echo "ginkgo github.com/onsi/ginkgo/v2 v2.28.1 ./ginkgo build"
  echo "agnhost k8s.io/kubernetes v1.37.2 ./test/images/agnhost build"
  echo "csi-addons-sidecar github.com/csi-addons/kubernetes-csi-addons v0.14.0 ./sidecar build"
  echo "csi-addons-manager github.com/csi-addons/kubernetes-csi-addons v0.14.0 ./cmd/manager build"
  echo "cert-manager github.com/cert-manager/cert-manager v1.21.2 ./certmanager here"
}

# Unpacks a module where it can be changed. Kubernetes names its staging modules by folders that its published module lacks:
# they are taken in the version that belongs to it.
source_of() { # module version
  dir=$cache/src/$(echo "$1" | tr / _)@$2
  if [ ! -d "$dir" ]; then
    from=$(cd "$cache" && "$GO" mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [ -n "$from" ] || { echo "the module $1@$2 cannot be downloaded" >&2; exit 1; }
    rm -rf "$dir.part"
    cp -r "$from" "$dir.part"
    chmod -R u+w "$dir.part"
    rm -rf "$dir.part/vendor" "$dir.part/go.work" "$dir.part/go.work.sum"
    case $1 in
      k8s.io/kubernetes) sed -i "s#=> ./staging/src/\(.*\)\$#=> \1 v0.${2#v1.}#" "$dir.part/go.mod" ;;
      go.etcd.io/etcd/*) (cd "$dir.part" && for m in $(sed -n 's#^[ \t]*\(replace \)\{0,1\}\(go.etcd.io/[^ ]*\).*=> \.\..*#\2#p' go.mod); do "$GO" mod edit -dropreplace "$m"; done) ;;
      *external-snapshotter*) (cd "$dir.part" && "$GO" mod edit -dropreplace github.com/kubernetes-csi/external-snapshotter/client/v8) ;;
    esac
    mv "$dir.part" "$dir"
  fi
  echo "$dir"
}

flags() { # module version
  case $1 in
    k8s.io/kubernetes)
      p=k8s.io/component-base/version
      minor=${2#v1.}
      echo "-s -w -X $p.gitVersion=$2 -X $p.gitMajor=1 -X $p.gitMinor=${minor%%.*} -X $p.gitCommit=0000000000000000000000000000000000000000 -X $p.gitTreeState=clean -X $p.buildDate=2026-01-01T00:00:00Z" ;;
    helm.sh/*) echo "-s -w -X $1/internal/version.version=$2" ;;
    github.com/coredns/*) echo "-s -w" ;;
    *) echo "-s -w -X main.version=$2" ;;
  esac
}

wanted=$*
total=$(programs | wc -l)
n=0
programs | while read -r name module version package how; do
  n=$((n + 1))
  id=$name-$version
  out=$cache/bin/$id
  [ ! -x "$out" ] || { [ "$how" = here ] && [ -n "$(find "$here/$package" -newer "$out")" ]; } || continue
  [ -z "$wanted" ] || case " $wanted " in *" $id "*) ;; *) continue ;; esac
  echo "$(date +%T) building $id ($n of $total)"
  dir=$(source_of "$module" "$version")
  (
    cd "$dir"
    case $how in
      test) "$GO" test -c -vet=off -ldflags "$(flags "$module" "$version")" -o "$out.part" "$package" ;;
      build)
        "$GO" build -ldflags "$(flags "$module" "$version")" -o "$out.part" "$package"
        # With the CRDs, and the rights that its users apply beside it.
        [ "$name" != csi-addons-manager ] || { rm -rf "$cache/bin/$name-objects-$version" && cp -r deploy/controller "$cache/bin/$name-objects-$version"; } ;;
      # The published module is a library: the program is ours, and the chart is its module's.
      here)
        rm -rf "$cache/bin/$name-chart-$version"
        cp -r "deploy/charts/$name" "$cache/bin/$name-chart-$version"
        cd "$here/$package" && GOFLAGS="-buildvcs=false -trimpath" "$GO" build -ldflags "-s -w" -o "$out.part" . ;;
    esac
  ) >"$cache/$id.log" 2>&1 || { echo "building $id failed; the end of $cache/$id.log:" >&2; tail -5 "$cache/$id.log" >&2; exit 1; }
  mv "$out.part" "$out"
done
[ -n "$wanted" ] || rm -rf "$cache/src"
echo "$(date +%T) the programs of Kubernetes are in $cache/bin"
