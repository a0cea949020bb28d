#!/bin/sh
# git with its defaults: a commit that was acknowledged is there, and the repository is sound.
#
#   twinfs crashlab --setup 'sh git.sh setup' --check 'sh git.sh check' -- sh git.sh run
#
# (with the full path of this file: the working directory is the volume).
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
export GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent
case $1 in
setup)
    git init --quiet --template= repository
    ;;
run)
    cd repository || exit 1
    for n in 1 2 3; do
        echo "content $n" >"file$n" && git add "file$n" && git commit --quiet -m "commit $n" || exit 1
        echo "$(git rev-parse HEAD)" >>"$CRASHLAB_ACK"
    done
    ;;
check)
    cd repository && git fsck --full --strict 2>&1 || exit 1
    while read -r commit; do
        git merge-base --is-ancestor "$commit" HEAD || { echo "commit $commit is gone"; exit 1; }
    done <"$CRASHLAB_ACKED"
    ;;
esac
