-- Prints the most frequent words of a file, and the sum of the numbers of their lines.
local places, words, number = {}, {}, 0
for line in io.lines(arg[1]) do
    number = number + 1
    for word in line:gmatch('%S+') do
        local found = places[word]
        if not found then
            found = {}
            places[word] = found
            words[#words + 1] = word
        end
        found[#found + 1] = number
    end
end
table.sort(words, function(a, b)
    if #places[a] ~= #places[b] then return #places[a] > #places[b] end
    return a < b
end)
print(#words)
for at = 1, 1000 do
    local sum = 0
    for _, place in ipairs(places[words[at]]) do sum = sum + place end
    print(words[at], #places[words[at]], string.format('%d', sum))
end
