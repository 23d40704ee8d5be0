#!/bin/sh
# Creates the namespace and the search attributes that runs set. Does nothing where they are.
set -eu

until temporal operator cluster health >/dev/null 2>&1; do
    echo "waiting for the server at $TEMPORAL_ADDRESS"
    sleep 1
done

if ! temporal operator namespace describe --namespace "$NAMESPACE" >/dev/null 2>&1; then
    temporal operator namespace create --namespace "$NAMESPACE" --retention "$RETENTION"
fi

# The server's parts hear of a new namespace one after the other.
until known=$(temporal operator search-attribute list --namespace "$NAMESPACE" 2>/dev/null); do
    echo "waiting for the namespace $NAMESPACE"
    sleep 1
done

for attribute in OutlastAgent:Keyword OutlastStatus:Keyword OutlastPendingApprovals:Int OutlastWaitsFor:Keyword \
    OutlastWaitingGroups:KeywordList OutlastRisk:Keyword OutlastDue:Datetime OutlastTenant:Keyword \
    OutlastCustomer:Keyword OutlastTeam:Keyword OutlastAssignee:Keyword OutlastTags:KeywordList \
    OutlastCaseDue:Datetime OutlastRating:Int; do
    name=${attribute%%:*}
    case "$known" in
    *"$name"*) ;;
    *)
        temporal operator search-attribute create --namespace "$NAMESPACE" \
            --name "$name" --type "${attribute##*:}"
        ;;
    esac
done
