-- Prints the most frequent words of a file, and the sum of the numbers of their lines.
module Main where

import qualified Data.ByteString.Char8 as B
import Data.List (foldl', sortOn)
import qualified Data.Map.Strict as M
import System.Environment (getArgs)

main :: IO ()
main = do
    [path] <- getArgs
    text <- B.readFile path
    let pairs = [(word, number) | (line, number) <- zip (B.lines text) [1 :: Int ..], word <- B.words line]
        places = foldl' (\table (word, number) -> M.insertWith (++) word [number] table) M.empty pairs
        found = sortOn (\(word, lines') -> (negate (length lines'), word)) (M.toList places)
    print (M.size places)
    mapM_ (\(word, lines') -> print (word, length lines', sum lines')) (take 1000 found)
